"""The neutral vocabulary between the sources and the rest of the agent.

A source says what it read in these words and nothing about what follows from it. A
reading is a plain value, `UNSUPPORTED` (this device will never give it) or `Failed`
(it did not give it this time). Names of readings are the fields of `wire.sample.Gpu`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from wire.sample import EventName, Gpu, GpuInventory, GpuState, ProcessKind, ProcessOwner

AvailabilityState = Literal[
    "yes", "no library", "no device", "no permission", "driver mismatch", "access lost", "failed"
]
"""`driver mismatch`: library and kernel module are of different versions. `access lost`: the
devices were readable before and nothing answers now. Both want a new process."""


class Unsupported(Struct, frozen=True, tag=True):
    """The device does not give this value, now or later."""


class Failed(Struct, frozen=True, tag=True):
    """The value could not be had this time."""

    reason: str


UNSUPPORTED: Final = Unsupported()

OTHER_FIELDS: Final = frozenset(
    {
        "uuid",
        "state",
        "mig",
        "processes",
        "processes_omitted_count",
        "errors",
        "idle_ms",
        "idle_total_ms",
        "idle_energy_mj",
    }
)
READABLE_FIELDS: Final = tuple(name for name in Gpu.__struct_fields__ if name not in OTHER_FIELDS)


class RawProcess(Struct, frozen=True, kw_only=True):
    """One process on a GPU, as the source tells it; `pid` is the host's."""

    pid: int
    name: str | None = None
    kind: ProcessKind | None = None
    owner: ProcessOwner = "unknown"
    pod_uid: str | None = None
    container_id: str | None = None
    mig_uuid: str | None = None
    memory_used_bytes: Any = None
    sm_utilization_percent: Any = None
    memory_utilization_percent: Any = None
    encoder_utilization_percent: Any = None
    decoder_utilization_percent: Any = None


class RawMig(Struct, frozen=True, kw_only=True):
    """One MIG instance, as the source tells it; values may be None, unsupported or failed."""

    uuid: str
    profile: str | None = None
    gpu_instance_id: Any = None
    compute_instance_id: Any = None
    multiprocessor_count: Any = None
    memory_total_bytes: Any = None
    memory_used_bytes: Any = None
    memory_free_bytes: Any = None


class RawGpu(Struct, frozen=True, kw_only=True):
    """One GPU, named by UUID. A field that is absent from `readings` was not asked for.

    `invalid_count` is how many values the source itself found to be impossible and left
    out, such as junk records of a process list.
    """

    uuid: str
    state: GpuState = "ok"
    readings: Mapping[str, Any] = {}
    mig: tuple[RawMig, ...] = ()
    processes: tuple[RawProcess, ...] = ()
    invalid_count: int = 0


Owners = Callable[[Sequence[RawProcess]], tuple[RawProcess, ...]]
"""Tells the owner of each process: fills in `owner`, `pod_uid`, `container_id`, `name`."""


class LogPosition(Struct, frozen=True):
    """Where in the kernel's log an event stands: `sequence` counts from 0 at each boot."""

    boot_id: str
    sequence: int


class RawEvent(Struct, frozen=True, kw_only=True):
    """Something a source noticed. Without a time it happened in this tick."""

    event: EventName
    ts_unix_ms: int | None = None
    gpu_uuid: str | None = None
    pci_bus_id: str | None = None
    xid: int | None = None
    count: int = 1
    log: LogPosition | None = None
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
    cuda_version: str | None = None
    library_versions: Mapping[str, str] = {}
    gpus: tuple[GpuInventory, ...] = ()
