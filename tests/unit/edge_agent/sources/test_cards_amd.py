"""What amdgpu's files mean: fans that lie, marked clocks, memory, ECC counts."""

import pytest

from edge_agent import config
from edge_agent.core import reading
from edge_agent.sources import cards
from support.cards import tree

NONE = reading.UNSUPPORTED


def readings(tmp_path, name, files):
    host = tree.Tree(tmp_path)
    host.card(name, files=files)
    source = cards.Cards(config.Drm(integrated=True), host=host.host)
    source.available()
    return source.read()[0].gpus[0].readings


def hwmon(name):
    return f"device/hwmon/hwmon3/{name}"


@pytest.mark.parametrize(
    ("pwm", "rpm", "expected"),
    [("0", "1395", None), ("76", "0", None), ("0", "0", 0.0), ("255", "3000", 100.0)],
)
def test_a_fan_is_told_in_percent_when_it_agrees_with_its_speed(tmp_path, pwm, rpm, expected):
    """A pwm of 0 on a turning fan, or above 0 on one that stands, is no percentage."""
    files = {hwmon("pwm1"): pwm, hwmon("fan1_input"): rpm}

    found = readings(tmp_path, "rx6900xt", files)

    assert found.get("fan_percent") == expected
    assert found["fan_rpm"] == int(rpm)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("0: 300Mhz\n1: 900Mhz *", 900),
        ("S: 19Mhz *\n0: 615Mhz", 19),
        ("0: 687Mhz *\n1: 687Mhz *", 687),
        ("0: 600Mhz *\n1: 687Mhz *", None),
        ("0: 300Mhz\n1: 900Mhz", None),
        ("", NONE),
    ],
)
def test_without_a_clock_sensor_the_marked_level_is_told(tmp_path, levels, expected):
    """One marked level is the clock; none or several different ones say nothing."""
    found = readings(tmp_path, "vega-687f", {"device/pp_dpm_sclk": levels})

    assert found.get("graphics_clock_mhz") == expected


def test_power_now_stands_in_for_the_average(tmp_path):
    """Where there is no average there is the momentary power; with both it is the average."""
    files = {hwmon("power1_average"): None, hwmon("power1_input"): "131000000"}

    assert readings(tmp_path, "rx6900xt", files)["power_mw"] == 131_000


def test_errors_are_summed_over_the_blocks(tmp_path):
    """Each block that counts errors adds to the sums; more lines do not disturb."""
    files = {
        "device/ras/umc_err_count": "ue: 1\nce: 20",
        "device/ras/gfx_err_count": "ue: 2\nce: 0\nde: 7",
        "device/ras/features": "feature mask: 0x3",
    }

    found = readings(tmp_path, "mi100", files)

    assert found["ecc_uncorrected_count"] == 3
    assert found["ecc_corrected_count"] == 20


@pytest.mark.parametrize("text", ["ue: 1", "ue: x\nce: 3", "nonsense"])
def test_a_block_that_cannot_be_understood_makes_the_sums_unknown(tmp_path, text):
    """A sum that lacks a block would be a lower count, which is false."""
    files = {"device/ras/umc_err_count": "ue: 1\nce: 20", "device/ras/gfx_err_count": text}

    found = readings(tmp_path, "mi100", files)

    assert isinstance(found["ecc_uncorrected_count"], reading.Failed)
    assert isinstance(found["ecc_corrected_count"], reading.Failed)


def test_more_memory_in_use_than_there_is_leaves_no_free_memory(tmp_path):
    """What is free is not reckoned from a contradiction."""
    files = {"device/mem_info_vram_used": "99999999999999"}

    assert "memory_free_bytes" not in readings(tmp_path, "rx6900xt", files)


def test_an_accelerator_with_a_cpu_on_the_chip_is_not_integrated(tmp_path):
    """An MI300A has memory of its own kind that is not the CPU's carve-out."""
    host = tree.Tree(tmp_path)
    host.card("mi300x", files={hwmon("in1_label"): "vddnb"})

    assert cards.Cards(host=host.host).available().state == "yes"
