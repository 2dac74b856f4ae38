"""The neutral vocabulary between the sources and the rest of the agent.

A source says what it read in these words and nothing about what follows from it. A
reading is a plain value, `UNSUPPORTED` (this device will never give it) or `Failed`
(it did not give it this time). Names of readings are the fields of `wire.sample.Gpu`.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from wire.sample import EventName, GpuInventory, GpuState

AvailabilityState = Literal["yes", "no library", "no device", "no permission", "failed"]


class Unsupported(Struct, frozen=True, tag=True):
    """The device does not give this value, now or later."""


class Failed(Struct, frozen=True, tag=True):
    """The value could not be had this time."""

    reason: str


UNSUPPORTED: Final = Unsupported()

READABLE_FIELDS: Final = (
    "utilization_percent",
    "memory_utilization_percent",
    "memory_total_bytes",
    "memory_used_bytes",
    "memory_free_bytes",
    "memory_reserved_bytes",
    "power_mw",
    "power_limit_mw",
    "energy_mj",
    "temperature_c",
    "temperature_slowdown_c",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "throttle_reasons",
    "ecc_uncorrected_count",
    "recovery_action",
    "mig_enabled",
)


class RawProcess(Struct, frozen=True, kw_only=True):
    """One process on a GPU, as the source tells it."""

    pid: int
    name: str | None = None
    pod_uid: str | None = None
    memory_used_bytes: Any = None
    sm_utilization_percent: Any = None


class RawGpu(Struct, frozen=True, kw_only=True):
    """One GPU, named by UUID. A field that is absent from `readings` was not asked for."""

    uuid: str
    state: GpuState = "ok"
    readings: Mapping[str, Any] = {}
    processes: tuple[RawProcess, ...] = ()


class RawEvent(Struct, frozen=True, kw_only=True):
    """Something a source noticed. Without a time it happened in this tick."""

    event: EventName
    ts_unix_ms: int | None = None
    gpu_uuid: str | None = None
    xid: int | None = None
    count: int = 1
    detail: str = ""


class Observation(Struct, frozen=True, kw_only=True):
    """What one read gave. Without a time it is of this tick.

    `complete` says that every GPU of the source is in it, so that one that is missing
    is lost and not merely silent.
    """

    ts_unix_ms: int | None = None
    gpus: tuple[RawGpu, ...] = ()
    events: tuple[RawEvent, ...] = ()
    complete: bool = True


class Availability(Struct, frozen=True, kw_only=True):
    """Whether a source can be read, and what it knows about its GPUs."""

    state: AvailabilityState
    detail: str = ""
    driver_version: str | None = None
    gpus: tuple[GpuInventory, ...] = ()
