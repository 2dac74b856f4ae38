"""THE TABLE: which call or field of NVML gives which readings of `wire.sample.Gpu`.

A quantity has one or more ways, the best first. A way that the device or the driver does
not have is not tried again; when the last one is gone the quantity is unsupported. Fields
of all quantities are asked for in one call. What is asked each tick goes to the C function
itself, through memory that is kept: the binding makes it anew for each call, and most of an
agent's CPU time would go there. What changes slowly, or costs the driver time,
is `slow`: asked every `nvml.slow_interval_ms` and kept in between.

To add a reading: one line here, and its field in `wire.sample.Gpu`.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from edge_agent.sources.nvml import picks
from edge_agent.sources.nvml.codes import Library

ALL_LINKS: Final = 0xFFFFFFFF
FieldId = int | tuple[int, int]
Pick = Callable[..., tuple[Any, ...]]


def as_it_is(*values: Any) -> tuple[Any, ...]:
    """The values are the readings."""
    return values


class Call(Struct, frozen=True):
    """A C function: handle, `args`, and pointers to `outs`, each the layout of what is written
    there (see `struct`). `head` is the version word that a structure begins with. `pick` makes
    the readings of all values written.
    """

    symbol: str
    args: tuple[int, ...] = ()
    outs: tuple[str, ...] = ("I",)
    head: int = 0
    pick: Pick = as_it_is
    slow: bool = False


class Ask(Struct, frozen=True):
    """A function of the binding, or several.

    `only_without` is for a way that must not stand in for one that failed.
    """

    call: Callable[[Library, Any], tuple[Any, ...]]
    slow: bool = False
    only_without: bool = False


class Fields(Struct, frozen=True):
    """Fields by id, or (id, scope). `pick` makes the readings of their values, None for one
    that is not there. With `rate` the values are counters and the readings their growth per
    second.
    """

    ids: tuple[FieldId, ...]
    pick: Pick = as_it_is
    slow: bool = False
    rate: bool = False


Way = Call | Ask | Fields


class Quantity(Struct, frozen=True):
    """Readings that come together, and the ways to them."""

    names: tuple[str, ...]
    ways: tuple[Way, ...]


def _one(function: str, *args: Any, slow: bool = False) -> Ask:
    """A call that gives one reading as it is."""
    return Ask(lambda lib, handle: (getattr(lib, function)(handle, *args),), slow)


def _share(symbol: str, *, slow: bool = False) -> Call:
    """A call that gives a share and its sampling period."""
    return Call(symbol, outs=("I", "I"), pick=lambda share, _: (share,), slow=slow)


def _mode(function: str, *args: Any) -> Ask:
    return Ask(lambda lib, handle: (getattr(lib, function)(handle, *args) == 1,), slow=True)


MEMORY_V2: Final = Call(
    "nvmlDeviceGetMemoryInfo_v2", outs=("I4xQQQQ",), head=0x2000028, pick=picks.memory_v2
)
TEMPERATURE_V: Final = Call(
    "nvmlDeviceGetTemperatureV", outs=("IIi",), head=0x100000C, pick=lambda *words: words[2:]
)
MARGIN: Final = Call(
    "nvmlDeviceGetMarginTemperature", outs=("Ii",), head=0x1000008, pick=lambda *words: words[1:]
)
MEMORY: Final = ("total", "used", "free", "reserved")

QUANTITIES: Final[tuple[Quantity, ...]] = (
    Quantity(
        ("utilization_percent", "memory_utilization_percent"),
        (Call("nvmlDeviceGetUtilizationRates", outs=("II",)),),
    ),
    Quantity(("encoder_utilization_percent",), (_share("nvmlDeviceGetEncoderUtilization"),)),
    Quantity(("decoder_utilization_percent",), (_share("nvmlDeviceGetDecoderUtilization"),)),
    Quantity(("jpeg_utilization_percent",), (_share("nvmlDeviceGetJpgUtilization", slow=True),)),
    Quantity(("ofa_utilization_percent",), (_share("nvmlDeviceGetOfaUtilization", slow=True),)),
    Quantity(
        (*(f"memory_{part}_bytes" for part in MEMORY), "memory_method"),
        (MEMORY_V2, Ask(picks.memory_v1), Ask(picks.no_memory, only_without=True)),
    ),
    Quantity(("bar1_total_bytes", "bar1_used_bytes"), (Ask(picks.bar1, slow=True),)),
    Quantity(("power_mw",), (Call("nvmlDeviceGetPowerUsage"),)),
    Quantity(("power_limit_mw",), (_one("nvmlDeviceGetEnforcedPowerLimit", slow=True),)),
    Quantity(("energy_mj",), (Fields((83,)), _one("nvmlDeviceGetTotalEnergyConsumption"))),
    Quantity(
        ("temperature_c",),
        (TEMPERATURE_V, _one("nvmlDeviceGetTemperature", 0)),
    ),
    Quantity(("temperature_memory_c",), (Fields((82,)),)),
    Quantity(
        ("temperature_slowdown_c",), (_one("nvmlDeviceGetTemperatureThreshold", 1, slow=True),)
    ),
    Quantity(("temperature_margin_c",), (MARGIN,)),
    Quantity(("fan_percent",), (_one("nvmlDeviceGetFanSpeed", slow=True),)),
    Quantity(("graphics_clock_mhz",), (Call("nvmlDeviceGetClockInfo", (0,), slow=True),)),
    Quantity(("sm_clock_mhz",), (Call("nvmlDeviceGetClockInfo", (1,)),)),
    Quantity(("memory_clock_mhz",), (Call("nvmlDeviceGetClockInfo", (2,)),)),
    Quantity(("video_clock_mhz",), (Call("nvmlDeviceGetClockInfo", (3,), slow=True),)),
    Quantity(("performance_state",), (Call("nvmlDeviceGetPerformanceState", pick=picks.state),)),
    Quantity(
        ("throttle_reasons",),
        (
            Call("nvmlDeviceGetCurrentClocksEventReasons", outs=("Q",), pick=picks.reasons),
            Call("nvmlDeviceGetCurrentClocksThrottleReasons", outs=("Q",), pick=picks.reasons),
        ),
    ),
    Quantity(
        ("throttled_ms",),
        (Fields(tuple(picks.THROTTLED), picks.throttled), Ask(picks.violations, slow=True)),
    ),
    Quantity(
        ("ecc_corrected_count",),
        (Fields((3,), slow=True), Ask(lambda lib, h: picks.ecc(lib, h, 0, 0), slow=True)),
    ),
    Quantity(
        ("ecc_uncorrected_count",),
        (Fields((4,), slow=True), Ask(lambda lib, h: picks.ecc(lib, h, 1, 0), slow=True)),
    ),
    Quantity(
        ("ecc_corrected_lifetime_count",),
        (Fields((5,), slow=True), Ask(lambda lib, h: picks.ecc(lib, h, 0, 1), slow=True)),
    ),
    Quantity(
        ("ecc_uncorrected_lifetime_count",),
        (Fields((6,), slow=True), Ask(lambda lib, h: picks.ecc(lib, h, 1, 1), slow=True)),
    ),
    Quantity(
        ("retired_pages_single_bit_count",),
        (Fields((29,), slow=True), Ask(lambda lib, h: picks.retired(lib, h, 0), slow=True)),
    ),
    Quantity(
        ("retired_pages_double_bit_count",),
        (Fields((30,), slow=True), Ask(lambda lib, h: picks.retired(lib, h, 1), slow=True)),
    ),
    Quantity(
        ("retired_pages_pending",),
        (Fields((31,), picks.flags, slow=True), _mode("nvmlDeviceGetRetiredPagesPendingStatus")),
    ),
    Quantity(
        (
            "remapped_rows_corrected_count",
            "remapped_rows_uncorrected_count",
            "remapped_rows_pending",
            "remapped_rows_failed",
        ),
        (
            Fields((142, 143, 144, 145), picks.remapped_fields, slow=True),
            Ask(picks.remapped, slow=True),
        ),
    ),
    Quantity(("recovery_action",), (Fields((230,), picks.recovery),)),
    Quantity(("pcie_generation",), (_one("nvmlDeviceGetCurrPcieLinkGeneration", slow=True),)),
    Quantity(("pcie_width",), (_one("nvmlDeviceGetCurrPcieLinkWidth", slow=True),)),
    Quantity(
        ("pcie_tx_bytes_per_s",),
        (
            Fields((197,), rate=True),
            Ask(lambda lib, h: (lib.nvmlDeviceGetPcieThroughput(h, 0) * 1000,), slow=True),
        ),
    ),
    Quantity(
        ("pcie_rx_bytes_per_s",),
        (
            Fields((198,), rate=True),
            Ask(lambda lib, h: (lib.nvmlDeviceGetPcieThroughput(h, 1) * 1000,), slow=True),
        ),
    ),
    Quantity(
        ("pcie_replay_count",),
        (Fields((94,), slow=True), _one("nvmlDeviceGetPcieReplayCounter", slow=True)),
    ),
    Quantity(("nvlink_active_count", "nvlink_down"), (Ask(picks.links, slow=True),)),
    Quantity(
        ("nvlink_tx_bytes",),
        (Fields(((138, ALL_LINKS),), picks.kib), Fields(((202, ALL_LINKS),))),
    ),
    Quantity(
        ("nvlink_rx_bytes",),
        (Fields(((139, ALL_LINKS),), picks.kib), Fields(((204, ALL_LINKS),))),
    ),
    Quantity(
        ("nvlink_error_count",),
        (
            Fields((38, 45, 52, 59), picks.total, slow=True),
            Fields(((213, ALL_LINKS), (214, ALL_LINKS)), picks.total, slow=True),
        ),
    ),
    Quantity(("fabric_state",), (Ask(picks.fabric, slow=True),)),
    Quantity(("mig_enabled",), (Ask(lambda lib, h: (lib.nvmlDeviceGetMigMode(h)[0] == 1,), True),)),
    Quantity(("persistence_mode",), (_mode("nvmlDeviceGetPersistenceMode"),)),
    Quantity(("confidential_compute",), (Ask(picks.confidential, slow=True),)),
)
