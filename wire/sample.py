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

Vendor = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
"""`nvidia`, `amd`, `intel`, …; `simulated` and `recorded` for GPUs that are not there."""

GpuState = Literal["ok", "lost", "suspended", "unreachable", "unresponsive"]
RecoveryAction = Literal["none", "gpu-reset", "node-reboot", "drain-p2p", "drain-and-reset"]
MemoryMethod = Literal["reserved-apart", "reserved-in-used", "unified"]
EnergyMethod = Literal["counter", "integrated"]
ConfidentialCompute = Literal["off", "on", "devtools"]
ProcessKind = Literal["compute", "graphics", "mixed"]
ProcessOwner = Literal["pod", "host", "gone", "unknown"]
XidClass = Literal["application", "driver", "hardware", "unknown"]
XidSeverity = Literal["ignore", "degraded", "fatal", "unknown"]
EventName = Literal[
    "xid",
    "gpu-lost",
    "gpu-back",
    "gpu-unresponsive",
    "gpu-access-lost",
    "gpu-count-changed",
    "cuda-out-of-memory",
    "driver-mismatch",
    "driver-changed",
    "throttle-start",
    "throttle-stop",
    "recovery-action-changed",
    "ecc-double-bit",
    "row-remap-failed",
    "clock-stepped",
    "source-failed",
    "source-back",
]
LossCause = Literal["age", "size", "disk-full", "corrupt", "oversize", "refused"]


class Process(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process on a GPU, by its pid on the host.

    `owner` tells why `pod_uid` is None: `host`, the process runs in no pod; `gone`, it
    ended before it was looked up; `unknown`, the host's processes cannot be seen.
    """

    pid: Count
    name: Text | None = None
    kind: ProcessKind | None = None
    owner: ProcessOwner = "unknown"
    pod_uid: Text | None = None
    container_id: Text | None = None
    mig_uuid: GpuUuid | None = None
    memory_used_bytes: Count | None = None
    sm_utilization_percent: Percent | None = None
    memory_utilization_percent: Percent | None = None
    encoder_utilization_percent: Percent | None = None
    decoder_utilization_percent: Percent | None = None


class MigInstance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One MIG instance of a GPU; `profile` as NVIDIA names it, such as `1g.10gb`."""

    uuid: GpuUuid
    profile: Text | None = None
    gpu_instance_id: Count | None = None
    compute_instance_id: Count | None = None
    multiprocessor_count: Count | None = None
    memory_total_bytes: Count | None = None
    memory_used_bytes: Count | None = None
    memory_free_bytes: Count | None = None


class Gpu(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU in one tick, named by its UUID; what is None is left out of the text.

    Counters: `energy_mj`, `throttled_ms` (by reason), `pcie_replay_count`, `nvlink_*` and
    the `ecc_*_count` without `lifetime` run since the driver was loaded, the `lifetime`
    ones since the board was made, `idle_total_ms` and `idle_energy_mj` since the agent
    started; each may start again at zero. `*_mean_*` and `*_max_*` are over the interval
    since the sample before. `energy_method` and `memory_method` say how those values came
    about: `integrated` is power times time since the agent started, `reserved-in-used`
    counts the driver's own memory as used, `unified` is memory shared with the CPU.
    """

    uuid: GpuUuid
    state: GpuState = "ok"

    utilization_percent: Percent | None = None
    utilization_mean_percent: Percent | None = None
    utilization_max_percent: Percent | None = None
    memory_utilization_percent: Percent | None = None
    encoder_utilization_percent: Percent | None = None
    decoder_utilization_percent: Percent | None = None
    jpeg_utilization_percent: Percent | None = None
    ofa_utilization_percent: Percent | None = None

    graphics_active_percent: Percent | None = None
    sm_active_percent: Percent | None = None
    sm_occupancy_percent: Percent | None = None
    tensor_active_percent: Percent | None = None
    memory_active_percent: Percent | None = None
    fp64_active_percent: Percent | None = None
    fp32_active_percent: Percent | None = None
    fp16_active_percent: Percent | None = None

    memory_total_bytes: Count | None = None
    memory_used_bytes: Count | None = None
    memory_free_bytes: Count | None = None
    memory_reserved_bytes: Count | None = None
    memory_method: MemoryMethod | None = None
    bar1_total_bytes: Count | None = None
    bar1_used_bytes: Count | None = None

    power_mw: Count | None = None
    power_mean_mw: Count | None = None
    power_max_mw: Count | None = None
    power_limit_mw: Count | None = None
    energy_mj: Count | None = None
    energy_method: EnergyMethod | None = None

    temperature_c: float | None = None
    temperature_hotspot_c: float | None = None
    temperature_memory_c: float | None = None
    temperature_slowdown_c: float | None = None
    temperature_margin_c: float | None = None
    fan_percent: Percent | None = None
    fan_rpm: Count | None = None

    graphics_clock_mhz: Count | None = None
    sm_clock_mhz: Count | None = None
    memory_clock_mhz: Count | None = None
    video_clock_mhz: Count | None = None
    performance_state: Annotated[int, Meta(ge=0, le=15)] | None = None
    throttle_reasons: tuple[Text, ...] | None = None
    throttled_ms: dict[Text, Count] | None = None

    ecc_corrected_count: Count | None = None
    ecc_uncorrected_count: Count | None = None
    ecc_corrected_lifetime_count: Count | None = None
    ecc_uncorrected_lifetime_count: Count | None = None
    retired_pages_single_bit_count: Count | None = None
    retired_pages_double_bit_count: Count | None = None
    retired_pages_pending: bool | None = None
    remapped_rows_corrected_count: Count | None = None
    remapped_rows_uncorrected_count: Count | None = None
    remapped_rows_pending: bool | None = None
    remapped_rows_failed: bool | None = None
    recovery_action: RecoveryAction | None = None

    pcie_generation: Count | None = None
    pcie_width: Count | None = None
    pcie_tx_bytes_per_s: Count | None = None
    pcie_rx_bytes_per_s: Count | None = None
    pcie_replay_count: Count | None = None
    nvlink_active_count: Count | None = None
    nvlink_down: tuple[Count, ...] | None = None
    nvlink_tx_bytes: Count | None = None
    nvlink_rx_bytes: Count | None = None
    nvlink_error_count: Count | None = None
    fabric_state: Text | None = None

    mig_enabled: bool | None = None
    persistence_mode: bool | None = None
    confidential_compute: ConfidentialCompute | None = None

    idle_ms: Count | None = None
    idle_total_ms: Count | None = None
    idle_energy_mj: Count | None = None

    mig: tuple[MigInstance, ...] = ()
    processes: tuple[Process, ...] = ()
    processes_omitted_count: Count = 0
    errors: dict[str, Text] = {}


class Sample(Struct, frozen=True, kw_only=True, tag_field="kind", tag="sample"):
    """One tick of one node.

    `interval_ms` is monotonic time since the tick before; `cadence_ms` is how long the
    agent means to wait until the next one, unless something happens (0: it does not say).
    """

    seq: Seq
    ts_unix_ms: UnixMs
    interval_ms: Count
    cadence_ms: Count = 0
    gpus: tuple[Gpu, ...]
    invalid_count: Count = 0


class Event(Struct, frozen=True, kw_only=True, tag_field="kind", tag="event", omit_defaults=True):
    """Something that happened.

    `count` is how many equal ones this record stands for, from `ts_unix_ms` to
    `ts_last_unix_ms`. For an XID the catalogue's class, severity and usual action are given.
    """

    seq: Seq
    ts_unix_ms: UnixMs
    event: EventName
    gpu_uuid: GpuUuid | None = None
    pci_bus_id: Text | None = None
    xid: Count | None = None
    xid_class: XidClass | None = None
    severity: XidSeverity | None = None
    action: Text | None = None
    count: Annotated[int, Meta(ge=1)] = 1
    ts_last_unix_ms: UnixMs | None = None
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


class GpuInventory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What does not change while the driver is loaded, and what this GPU cannot tell.

    `integrated`: it shares chip and memory with the CPU. `method` names the way it is read
    where that is not the vendor's library: `sysfs` gives fewer values.
    """

    uuid: GpuUuid
    vendor: Vendor
    name: Text | None = None
    serial: Text | None = None
    pci_bus_id: Text | None = None
    architecture: Text | None = None
    compute_capability: Text | None = None
    vbios_version: Text | None = None
    board_part_number: Text | None = None
    numa_node: Count | None = None
    integrated: bool = False
    method: Text | None = None
    memory_total_bytes: Count | None = None
    power_limit_default_mw: Count | None = None
    power_limit_min_mw: Count | None = None
    power_limit_max_mw: Count | None = None
    temperature_shutdown_c: float | None = None
    graphics_clock_max_mhz: Count | None = None
    sm_clock_max_mhz: Count | None = None
    memory_clock_max_mhz: Count | None = None
    video_clock_max_mhz: Count | None = None
    pcie_generation_max: Count | None = None
    pcie_width_max: Count | None = None
    nvlink_count: Count | None = None
    unsupported: tuple[Text, ...] = ()


class Status(Struct, frozen=True, kw_only=True, tag_field="kind", tag="status"):
    """Birth or death of an agent. The broker publishes the death as the agent's Will."""

    ts_unix_ms: UnixMs
    state: Literal["birth", "death"]
    agent_version: Text
    reason: Text = ""
    sources: dict[str, Text] = {}
    driver_version: Text | None = None
    cuda_version: Text | None = None
    library_versions: dict[Text, Text] = {}
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
