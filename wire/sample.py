"""Records: what an agent says about its node.

Four kinds travel in envelopes. A `sample` is one tick of one node. An `event` is
something that happened at a moment. A `loss` tells exactly what was given up. A
`status` is the node's birth or death; it is a retained state, not history, so it
alone has no `seq` and is never counted.

Every quantity carries its unit in its name. `None` means that the device did not
give the value: for good (listed once in the birth's `unsupported`), or this time
(the reason stands in `errors`). Zero means zero.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from wire.names import ClusterName, Epoch, GpuUuid, NodeName, Seq, UnixMs

VERSION = 1

Percent = Annotated[float, Meta(ge=0, le=100)]
Count = Annotated[int, Meta(ge=0)]
Text = Annotated[str, Meta(max_length=1024)]

GpuState = Literal["ok", "lost", "suspended", "unreachable"]
RecoveryAction = Literal["none", "gpu-reset", "node-reboot", "drain-p2p", "drain-and-reset"]
EventName = Literal[
    "xid",
    "gpu-lost",
    "gpu-back",
    "cuda-out-of-memory",
    "driver-mismatch",
    "throttle-start",
    "throttle-stop",
    "source-failed",
    "source-back",
]
LossCause = Literal["age", "size", "disk-full", "corrupt", "oversize", "refused"]


class Process(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process on a GPU; `pod_uid` is None when its owner is not known."""

    pid: Count
    name: Text | None = None
    pod_uid: Text | None = None
    memory_used_bytes: Count | None = None
    sm_utilization_percent: Percent | None = None


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU in one tick, named by its UUID. `energy_mj` is a counter since driver load."""

    uuid: GpuUuid
    state: GpuState = "ok"
    utilization_percent: Percent | None = None
    memory_utilization_percent: Percent | None = None
    memory_total_bytes: Count | None = None
    memory_used_bytes: Count | None = None
    memory_free_bytes: Count | None = None
    memory_reserved_bytes: Count | None = None
    power_mw: Count | None = None
    power_limit_mw: Count | None = None
    energy_mj: Count | None = None
    temperature_c: float | None = None
    temperature_slowdown_c: float | None = None
    sm_clock_mhz: Count | None = None
    memory_clock_mhz: Count | None = None
    throttle_reasons: tuple[Text, ...] | None = None
    ecc_uncorrected_count: Count | None = None
    recovery_action: RecoveryAction | None = None
    mig_enabled: bool | None = None
    processes: tuple[Process, ...] = ()
    errors: dict[str, Text] = {}


class Sample(Struct, frozen=True, kw_only=True, tag_field="kind", tag="sample"):
    """One tick of one node. `interval_ms` is monotonic time since the tick before."""

    seq: Seq
    ts_unix_ms: UnixMs
    interval_ms: Count
    gpus: tuple[Gpu, ...]
    invalid_count: Count = 0


class Event(Struct, frozen=True, kw_only=True, tag_field="kind", tag="event"):
    """Something that happened. `count` is how many equal ones this record stands for."""

    seq: Seq
    ts_unix_ms: UnixMs
    event: EventName
    gpu_uuid: GpuUuid | None = None
    xid: Count | None = None
    count: Annotated[int, Meta(ge=1)] = 1
    detail: Text = ""


class Loss(Struct, frozen=True, kw_only=True, tag_field="kind", tag="loss"):
    """Records that were sampled and will never come: `seq_from` to `seq_to`, both given up."""

    seq: Seq
    ts_unix_ms: UnixMs
    lost_epoch: Epoch
    seq_from: Seq
    seq_to: Seq
    time_from_unix_ms: UnixMs | None
    time_to_unix_ms: UnixMs | None
    cause: LossCause
    detail: Text = ""


class GpuInventory(Struct, frozen=True, kw_only=True):
    """What does not change while the driver is loaded, and what this GPU cannot tell."""

    uuid: GpuUuid
    vendor: Literal["nvidia", "amd", "intel", "simulated", "recorded"]
    name: Text | None = None
    serial: Text | None = None
    pci_bus_id: Text | None = None
    memory_total_bytes: Count | None = None
    unsupported: tuple[Text, ...] = ()


class Status(Struct, frozen=True, kw_only=True, tag_field="kind", tag="status"):
    """Birth or death of an agent. The broker publishes the death as the agent's Will."""

    ts_unix_ms: UnixMs
    state: Literal["birth", "death"]
    agent_version: Text
    reason: Text = ""
    sources: dict[str, Text] = {}
    driver_version: Text | None = None
    gpus: tuple[GpuInventory, ...] = ()


Record = Sample | Event | Loss | Status
Counted = Sample | Event | Loss


class Envelope(Struct, frozen=True, kw_only=True):
    """One MQTT message and one Kafka record: some records of one node and epoch."""

    v: int
    cluster: ClusterName
    node: NodeName
    epoch: Epoch
    sent_unix_ms: UnixMs
    records: tuple[Record, ...]


class Confirmation(Struct, frozen=True, kw_only=True):
    """The bridge tells a node which seqs Kafka holds: closed ranges, ascending, disjoint."""

    v: int
    epoch: Epoch
    ranges: tuple[tuple[Seq, Seq], ...]
