"""A whole GPU with every value there can be, its inventory, and pages made of such."""

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from edge_agent import exporter
from wire.sample import Event, Gpu, GpuInventory, MigInstance, Process, Sample

TS = 1_790_000_000_000
UUID = "GPU-5d2a7f10-0001-4000-8000-000000000001"
MIG_UUID = "MIG-5d2a7f10-0001-4000-8000-000000000002"
POD = "0c5b7a8e-3f2d-4b1a-9c6d-1e2f3a4b5c6d"
CONTAINER = "4f1c" * 16
NODE = ("demo", "edge-01")

TEXTS = {
    "throttle_reasons": ("sw-power-cap",),
    "throttled_ms": {"sw-power-cap": 61_250, "hw-slowdown": 0},
    "memory_method": "reserved-apart",
    "energy_method": "counter",
    "recovery_action": "none",
    "nvlink_down": (3,),
    "fabric_state": "completed",
    "confidential_compute": "off",
    "state": "ok",
}
FLAGS = (
    "retired_pages_pending",
    "remapped_rows_pending",
    "remapped_rows_failed",
    "mig_enabled",
    "persistence_mode",
)
OTHER = ("uuid", "mig", "processes", "processes_omitted_count", "errors")
TRAINER = Process(
    pid=4242,
    name="python3",
    kind="compute",
    owner="pod",
    pod_uid=POD,
    container_id=CONTAINER,
    memory_used_bytes=60 * 2**30,
    sm_utilization_percent=60.0,
    memory_utilization_percent=30.0,
    encoder_utilization_percent=0.0,
    decoder_utilization_percent=0.0,
)
SERVER = Process(
    pid=4343,
    name="triton",
    kind="compute",
    owner="host",
    memory_used_bytes=2**30,
    sm_utilization_percent=20.0,
)


def h100(uuid: str = UUID, **changes: Any) -> Gpu:
    """Every field has a value, and each number another one."""
    numbers = {
        name: number
        for number, name in enumerate(Gpu.__struct_fields__, start=1)
        if name not in TEXTS and name not in FLAGS and name not in OTHER
    }
    values = {
        **numbers,
        **TEXTS,
        **dict.fromkeys(FLAGS, False),
        "performance_state": 0,
        "memory_total_bytes": 80 * 2**30,
        "memory_used_bytes": 61 * 2**30,
        "energy_mj": 123_456_789,
        "power_mw": 400_000,
        "processes": (TRAINER, SERVER),
        **changes,
    }
    return Gpu(uuid=uuid, **values)


def mig_h100(uuid: str = UUID) -> Gpu:
    """The same, split: NVML gives the parent no utilisation then."""
    instance = MigInstance(
        uuid=MIG_UUID,
        profile="1g.10gb",
        gpu_instance_id=7,
        compute_instance_id=0,
        multiprocessor_count=16,
        memory_total_bytes=10 * 2**30,
        memory_used_bytes=2**30,
        memory_free_bytes=9 * 2**30,
    )
    return h100(uuid, mig_enabled=True, utilization_percent=None, mig=(instance,))


def inventory(uuid: str = UUID, bus: str = "00000000:3B:00.0") -> GpuInventory:
    """What does not change; every field has a value."""
    return GpuInventory(
        uuid=uuid,
        vendor="nvidia",
        name="NVIDIA H100 80GB HBM3",
        serial="1320000000001",
        pci_bus_id=bus,
        architecture="hopper",
        compute_capability="9.0",
        vbios_version="96.00.5E.00.01",
        board_part_number="692-2G520-0200-000",
        numa_node=1,
        memory_total_bytes=80 * 2**30,
        power_limit_default_mw=700_000,
        power_limit_min_mw=200_000,
        power_limit_max_mw=700_000,
        temperature_shutdown_c=92.0,
        graphics_clock_max_mhz=1980,
        sm_clock_max_mhz=1980,
        memory_clock_max_mhz=2619,
        video_clock_max_mhz=1545,
        pcie_generation_max=5,
        pcie_width_max=16,
        nvlink_count=18,
    )


def sample(*gpus: Gpu, ts_unix_ms: int = TS, interval_ms: int = 1000, **more: Any) -> Sample:
    """One tick."""
    return Sample(seq=1, ts_unix_ms=ts_unix_ms, interval_ms=interval_ms, gpus=gpus, **more)


def xid(code: int, ts_unix_ms: int = TS, uuid: str | None = UUID, **more: Any) -> Event:
    """An XID of the GPU."""
    return Event(
        seq=1,
        ts_unix_ms=ts_unix_ms,
        event="xid",
        gpu_uuid=uuid,
        xid=code,
        xid_class="hardware",
        **more,
    )


def whole_page(*aliases: str) -> CollectorRegistry:
    """A registry of a node with a whole GPU, a split one, and an XID."""
    latest, registry = exporter.Latest(aliases), CollectorRegistry()
    registry.register(latest)
    other = "GPU-5d2a7f10-0001-4000-8000-000000000003"
    latest.inventory(*NODE, (inventory(), inventory(other, "00000000:5D:00.0")), "570.86.15")
    latest.put(*NODE, sample(h100(), mig_h100(other)))
    later = h100(energy_mj=123_856_789, nvlink_tx_bytes=2**30, nvlink_rx_bytes=2**30)
    latest.put(*NODE, sample(later, mig_h100(other), cadence_ms=1000))
    latest.event(*NODE, xid(79))
    return registry


def registry_of(alias: str, *happened: Sample | Event, age_ms: int = 0) -> CollectorRegistry:
    """A registry of a node of which only these were heard, `age_ms` ago."""
    now = [0]
    latest, registry = exporter.Latest((alias,), now_ms=lambda: now[0]), CollectorRegistry()
    registry.register(latest)
    for one in happened:
        if isinstance(one, Sample):
            latest.put(*NODE, one)
        else:
            latest.event(*NODE, one)
    now[0] = age_ms
    return registry


def page(registry: CollectorRegistry) -> str:
    """The classic text."""
    return generate_latest(registry).decode()


def series(text: str) -> list[tuple[str, dict[str, str], float]]:
    """All rows of a classic page: metric, labels, value."""
    families = text_string_to_metric_families(text)
    return [(row.name, row.labels, row.value) for one in families for row in one.samples]
