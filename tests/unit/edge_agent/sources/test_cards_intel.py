"""What i915's and xe's files mean: power from energy, limits, clocks, throttling."""

import pytest

from edge_agent import config
from edge_agent.core import reading
from edge_agent.sources import cards
from support.cards import tree

NONE = reading.UNSUPPORTED


class Bench:
    """One Intel GPU and a clock that is set by hand."""

    def __init__(self, root, name, files=None):
        self.now_s = 10.0
        host = tree.Tree(root)
        self.folder = host.card(name, files=files)
        self.source = cards.Cards(
            config.Drm(integrated=True), host=host.host, clock=lambda: self.now_s
        )
        self.inventory = self.source.available().gpus[0]

    def write(self, name, text):
        tree.write(self.folder / "device/hwmon/hwmon3" / name, text)

    def readings(self, after_s=1.0):
        self.now_s += after_s
        return self.source.read()[0].gpus[0].readings


def hwmon(name):
    return f"device/hwmon/hwmon3/{name}"


def test_power_is_energy_over_time(tmp_path):
    """The first read has no power; then it is the counter's difference over the clock's."""
    bench = Bench(tmp_path, "arc-b580", {hwmon("energy1_input"): "5000000"})

    assert "power_mw" not in bench.readings()
    bench.write("energy1_input", "85000000")

    found = bench.readings(after_s=2.0)

    assert found["power_mw"] == 40_000
    assert found["energy_mj"] == 85_000


@pytest.mark.parametrize("later", ["5000000", "4999999", "1"])
def test_a_counter_that_stands_still_or_goes_back_gives_no_power(tmp_path, later):
    """No power rather than 0 or less, and the next one is reckoned from the new value."""
    bench = Bench(tmp_path, "arc-b580", {hwmon("energy1_input"): "5000000"})
    bench.readings()
    bench.write("energy1_input", later)

    assert "power_mw" not in bench.readings()
    bench.write("energy1_input", str(int(later) + 30_000_000))
    assert bench.readings()["power_mw"] == 30_000


def test_no_power_is_reckoned_over_a_sleep(tmp_path):
    """The mean over a suspension is not the power now."""
    bench = Bench(tmp_path, "arc-b580", {hwmon("energy1_input"): "5000000"})
    bench.readings()
    tree.write(bench.folder / "device/power/runtime_status", "suspended")
    bench.source.read()
    tree.write(bench.folder / "device/power/runtime_status", "active")
    bench.write("energy1_input", "6000000")

    assert "power_mw" not in bench.readings(after_s=600.0)


def test_a_card_counter_that_says_zero_gives_way_to_the_package(tmp_path):
    """An energy of 0 is no count; the counter that was chosen is kept afterwards."""
    bench = Bench(tmp_path, "arc-b580-6.16")

    assert bench.readings()["energy_mj"] == 29_523_753
    bench.write("energy1_input", "7000000")
    assert bench.readings()["energy_mj"] == 29_523_753


def test_without_a_count_there_is_no_energy(tmp_path):
    """BR-13: counters at 0 only are as good as none, never 0 mJ."""
    files = {hwmon("energy1_input"): "0", hwmon("energy2_input"): "0"}

    found = Bench(tmp_path, "arc-b580-6.16", files).readings()

    assert found["energy_mj"] is NONE
    assert found["power_mw"] is NONE


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"power1_max": "150000000"}, 150_000),
        ({"power1_max": "0"}, NONE),
        ({"power1_cap": None}, NONE),
        ({"power2_max": "55000000"}, 55_000),
        ({}, 190_000),
    ],
)
def test_the_limit_is_the_sustained_one_else_that_of_bursts(tmp_path, files, expected):
    """PL1 goes before PL2; 0 means that it is off."""
    bench = Bench(tmp_path, "arc-b580", {hwmon(name): text for name, text in files.items()})

    assert bench.readings()["power_limit_mw"] == expected


def test_the_clock_is_that_of_the_render_engines(tmp_path):
    """Media GTs do not count, and with two tiles the faster one does."""
    files = {
        "device/tile0/gt0/freq0/act_freq": "800",
        "device/tile0/gt1/freq0/act_freq": "1500",
        "device/tile1/gt2/freq0/act_freq": "900",
        "device/tile1/gt2/gtidle/name": "gt2-rc",
    }

    assert Bench(tmp_path, "arc-b580", files).readings()["graphics_clock_mhz"] == 900


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("arc-b580", "device/tile0/gt1/freq0/throttle/reason_{}"),
        ("arc-a380-i915", "gt/gt0/throttle_reason_{}"),
    ],
)
def test_throttling_is_told_in_the_words_of_the_contract(tmp_path, name, file):
    """Thermal, power and other reasons of both drivers; each once, and the status is none."""
    files = {file.format(one): "1" for one in ("thermal", "pl1", "pl2", "vr_tdc", "status")}

    found = Bench(tmp_path, name, files).readings()["throttle_reasons"]

    assert sorted(found) == ["hw-thermal-slowdown", "sw-power-cap", "vr-tdc"]


def test_a_reason_that_cannot_be_read_makes_all_unknown(tmp_path):
    """A list of reasons that lacks one would say that the GPU is not slowed by it."""
    bench = Bench(tmp_path, "arc-b580", {"device/tile0/gt0/freq0/throttle/reason_pl1": "7"})

    assert isinstance(bench.readings()["throttle_reasons"], reading.Failed)


def test_memory_of_all_tiles_is_summed(tmp_path):
    """Where the driver tells the tiles' memory, it is told; one tile without it, none is."""
    files = {
        "device/tile0/physical_vram_size_bytes": "8000000000",
        "device/tile1/physical_vram_size_bytes": "7000000000",
    }
    bench = Bench(tmp_path / "a", "arc-b580", files)
    partly = Bench(tmp_path / "b", "arc-b580", files | {"device/tile2/x": "1"})

    assert bench.readings()["memory_total_bytes"] == 15_000_000_000
    assert bench.inventory.memory_total_bytes == 15_000_000_000
    assert partly.readings()["memory_total_bytes"] is NONE


def test_the_tiles_own_hwmon_is_not_the_devices(tmp_path):
    """i915 has a hwmon folder for each GT besides the device's."""
    files = {"device/hwmon/hwmon2/name": "i915_gt0", "device/hwmon/hwmon2/energy1_input": "7000"}

    assert Bench(tmp_path, "arc-a380-i915", files).readings()["energy_mj"] == 25_637_161
