"""A Jetson's GPU through sysfs. The trees are in the form public tools read; figures invented."""

import pytest

from edge_agent import config
from edge_agent.core import normalize, reading
from edge_agent.sources import jetson
from support.cards import tree

DEVFREQ = "class/devfreq/17000000.gpu"
CHIP = "bus/i2c/devices/1-0040"
ORIN = {
    "firmware/devicetree/base/model": "NVIDIA Jetson AGX Orin Developer Kit\0",
    "firmware/devicetree/base/serial-number": "1420000000001\0",
    f"{DEVFREQ}/cur_freq": "918000000",
    f"{DEVFREQ}/max_freq": "1300500000",
    f"{DEVFREQ}/device/load": "437",
    f"{DEVFREQ}/device/of_node/name": "gpu\0",
    f"{DEVFREQ}/device/of_node/compatible": "nvidia,ga10b\0",
    "class/thermal/thermal_zone0/type": "cpu-thermal",
    "class/thermal/thermal_zone0/temp": "60000",
    "class/thermal/thermal_zone1/type": "gpu-thermal",
    "class/thermal/thermal_zone1/temp": "48500",
    f"{CHIP}/name": "ina3221",
    f"{CHIP}/hwmon/hwmon3/in1_label": "VDD_GPU_SOC",
    f"{CHIP}/hwmon/hwmon3/in1_input": "19000",
    f"{CHIP}/hwmon/hwmon3/curr1_input": "300",
}


def opened(root, changes=None):
    for name, text in {**ORIN, **(changes or {})}.items():
        if text is not None:
            tree.write(root / name, text)
    source = jetson.Jetson(host=config.Host(sys=str(root)))
    return source, source.available()


def readings(source):
    (observation,) = source.read()
    return observation.gpus[0].readings


def test_what_it_tells(tmp_path):
    """Load in percent, clock, temperature; memory is the CPU's, without figures."""
    source, found = opened(tmp_path)

    told = readings(source)

    assert found.state == "yes"
    assert found.gpus[0].uuid == "jetson-1420000000001"
    assert found.gpus[0].name == "NVIDIA Jetson AGX Orin Developer Kit"
    assert found.gpus[0].integrated
    assert found.gpus[0].graphics_clock_max_mhz == 1300
    assert told["utilization_percent"] == 43.7
    assert told["graphics_clock_mhz"] == 918
    assert told["temperature_c"] == 48.5
    assert told["memory_method"] == "unified"
    assert told["memory_total_bytes"] is reading.UNSUPPORTED
    assert normalize.normalize(source.read()[0].gpus[0]).invalid_count == 0


@pytest.mark.parametrize("rail", ["VDD_GPU_SOC", "VDD_CPU_GPU_CV", "VDD_IN", "NC"])
def test_a_rail_that_is_shared_is_not_the_gpus_power(tmp_path, rail):
    """Power of GPU and SoC together is not told as the GPU's."""
    source, _ = opened(tmp_path, {f"{CHIP}/hwmon/hwmon3/in1_label": rail})

    assert readings(source)["power_mw"] is reading.UNSUPPORTED


def test_the_rail_of_the_gpu_alone_is_volts_times_amperes(tmp_path):
    """The newer driver gives millivolts and milliamperes."""
    source, _ = opened(tmp_path, {f"{CHIP}/hwmon/hwmon3/in1_label": "GPU"})

    assert readings(source)["power_mw"] == 5_700


def test_the_older_driver_gives_the_power_itself(tmp_path):
    """Through iio the rail's power stands in a file."""
    source, _ = opened(
        tmp_path,
        {
            f"{CHIP}/name": "ina3221x",
            f"{CHIP}/iio:device0/rail_name_1": "POM_5V_GPU",
            f"{CHIP}/iio:device0/in_power1_input": "1234",
        },
    )

    assert readings(source)["power_mw"] == 1_234


@pytest.mark.parametrize(
    "changes",
    [
        {f"{DEVFREQ}/device/of_node/name": "nvdec"},
        {f"{DEVFREQ}/device/of_node/compatible": "rockchip,rk3588-mali"},
        {f"{DEVFREQ}/device/of_node/compatible": None},
        {f"{DEVFREQ}/device/of_node/name": None},
    ],
)
def test_another_machine_has_no_device(tmp_path, changes):
    """Another engine, and another maker's GPU, are no Jetson's GPU."""
    source, found = opened(tmp_path, changes)

    assert found.state == "no device"
    assert source.read()[0].gpus == ()


@pytest.mark.parametrize("text", ["1001", "-1", "x", "4294967295"])
def test_a_load_that_cannot_be_is_a_failure(tmp_path, text):
    """Load is 0 to 1000; what is not is no percentage."""
    source, _ = opened(tmp_path, {f"{DEVFREQ}/device/load": text})

    assert isinstance(readings(source)["utilization_percent"], reading.Failed)


@pytest.mark.parametrize(
    ("file", "field"),
    [
        (f"{DEVFREQ}/device/load", "utilization_percent"),
        (f"{DEVFREQ}/cur_freq", "graphics_clock_mhz"),
        ("class/thermal/thermal_zone1/type", "temperature_c"),
        ("class/thermal/thermal_zone1/temp", "temperature_c"),
    ],
)
def test_a_file_that_is_not_there_is_unsupported(tmp_path, file, field):
    """What a Jetson does not tell is unsupported, never 0."""
    source, _ = opened(tmp_path, {file: None})

    assert readings(source)[field] is reading.UNSUPPORTED


def test_after_close_there_is_nothing(tmp_path):
    """A closed source has no GPU until it is opened again."""
    source, found = opened(tmp_path)
    source.close()

    assert source.read()[0].gpus == ()
    assert source.available() == found
