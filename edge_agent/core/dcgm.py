"""The page's values as NVIDIA's dcgm-exporter names them: its counter files, Grafana 12239.

Names, labels and units are those of dcgm-exporter 4.x as read on 2026-12-01. What we cannot
know is absent: names of pods, vGPU licences. Its `gpu` is an index; ours counts by PCI bus id,
as the driver does. Counters without `_total` are of type `unknown`, or OpenMetrics would
rename them; its linter dislikes the label `modelName` only.
"""

from collections.abc import Mapping
from typing import Final

from edge_agent.core import nodeview
from edge_agent.core.page import Labels, Page, texts
from edge_agent.core.quantities import Kind, Quantity, Unit
from wire.sample import Gpu, MigInstance, Sample

LABELS: Final = (
    "gpu",
    "UUID",
    "pci_bus_id",
    "device",
    "modelName",
    "GPU_I_PROFILE",
    "GPU_I_ID",
    "Hostname",
    "DCGM_FI_DRIVER_VERSION",
)
UNITS: Final[Mapping[str, Unit]] = {
    "as-is": Unit(""),
    "MiB": Unit("MiB", down=1024 * 1024),
    "W": Unit("W", down=1000),
    "KB/s": Unit("KB/s", down=1000),
    "ratio": Unit("ratio", down=100),
}


def _table(table: str) -> tuple[Quantity, ...]:
    """Quantities from lines of metric, type, field, unit and help."""
    rows = (line.split(maxsplit=4) for line in table.strip().splitlines())
    kinds: dict[str, Kind] = {"gauge": "gauge", "counter": "unknown"}
    return tuple(
        Quantity(field, f"DCGM_FI_{metric}", text, kinds[kind], UNITS[unit])
        for metric, kind, field, unit, text in rows
    )


GPU: Final = _table("""
DEV_SM_CLOCK gauge sm_clock_mhz as-is SM clock in MHz.
DEV_MEM_CLOCK gauge memory_clock_mhz as-is Memory clock in MHz.
DEV_VIDEO_CLOCK gauge video_clock_mhz as-is Video clock in MHz.
DEV_MEMORY_TEMP gauge temperature_memory_c as-is Memory temperature in C.
DEV_GPU_TEMP gauge temperature_c as-is GPU temperature in C.
DEV_SLOWDOWN_TEMP gauge temperature_slowdown_c as-is Slowdown temperature in C.
DEV_POWER_USAGE gauge power_mw W Power draw in W.
DEV_ENFORCED_POWER_LIMIT gauge power_limit_mw W Power limit in force in W.
DEV_TOTAL_ENERGY_CONSUMPTION counter energy_mj as-is Energy in mJ.
DEV_FAN_SPEED gauge fan_percent as-is Fan speed in %.
DEV_PSTATE gauge performance_state as-is Performance state.
DEV_PCIE_TX_THROUGHPUT gauge pcie_tx_bytes_per_s KB/s PCIe traffic from the GPU in KB/s.
DEV_PCIE_RX_THROUGHPUT gauge pcie_rx_bytes_per_s KB/s PCIe traffic to the GPU in KB/s.
DEV_PCIE_REPLAY_COUNTER counter pcie_replay_count as-is PCIe replays.
DEV_PCIE_LINK_GEN gauge pcie_generation as-is PCIe generation.
DEV_PCIE_LINK_WIDTH gauge pcie_width as-is PCIe lanes.
DEV_GPU_UTIL gauge utilization_percent as-is GPU utilization in %.
DEV_MEM_COPY_UTIL gauge memory_utilization_percent as-is Memory utilization in %.
DEV_ENC_UTIL gauge encoder_utilization_percent as-is Encoder utilization in %.
DEV_DEC_UTIL gauge decoder_utilization_percent as-is Decoder utilization in %.
DEV_FB_TOTAL gauge memory_total_bytes MiB Framebuffer in MiB.
DEV_FB_FREE gauge memory_free_bytes MiB Framebuffer free in MiB.
DEV_FB_USED gauge memory_used_bytes MiB Framebuffer used in MiB.
DEV_FB_RESERVED gauge memory_reserved_bytes MiB Framebuffer reserved in MiB.
DEV_ECC_SBE_VOL_TOTAL counter ecc_corrected_count as-is Corrected errors, volatile.
DEV_ECC_DBE_VOL_TOTAL counter ecc_uncorrected_count as-is Uncorrected errors, volatile.
DEV_ECC_SBE_AGG_TOTAL counter ecc_corrected_lifetime_count as-is Corrected errors, lifetime.
DEV_ECC_DBE_AGG_TOTAL counter ecc_uncorrected_lifetime_count as-is Uncorrected errors, lifetime.
DEV_RETIRED_SBE counter retired_pages_single_bit_count as-is Pages retired, single-bit errors.
DEV_RETIRED_DBE counter retired_pages_double_bit_count as-is Pages retired, double-bit errors.
DEV_RETIRED_PENDING counter retired_pages_pending as-is Whether a page retirement is pending.
DEV_CORRECTABLE_REMAPPED_ROWS counter remapped_rows_corrected_count as-is Rows remapped, corrected.
DEV_UNCORRECTABLE_REMAPPED_ROWS counter remapped_rows_uncorrected_count as-is Rows, uncorrected.
DEV_ROW_REMAP_FAILURE gauge remapped_rows_failed as-is Whether remapping of rows has failed.
DEV_ROW_REMAP_PENDING gauge remapped_rows_pending as-is Whether a row remapping is pending.
PROF_GR_ENGINE_ACTIVE gauge graphics_active_percent ratio Ratio of time the engine is active.
PROF_SM_ACTIVE gauge sm_active_percent ratio Ratio of cycles an SM has work.
PROF_SM_OCCUPANCY gauge sm_occupancy_percent ratio Ratio of warps resident on an SM.
PROF_PIPE_TENSOR_ACTIVE gauge tensor_active_percent ratio Ratio of cycles the tensor pipe is active.
PROF_DRAM_ACTIVE gauge memory_active_percent ratio Ratio of cycles the memory is active.
PROF_PIPE_FP64_ACTIVE gauge fp64_active_percent ratio Ratio of cycles the fp64 pipe is active.
PROF_PIPE_FP32_ACTIVE gauge fp32_active_percent ratio Ratio of cycles the fp32 pipe is active.
PROF_PIPE_FP16_ACTIVE gauge fp16_active_percent ratio Ratio of cycles the fp16 pipe is active.
PROF_PCIE_TX_BYTES gauge pcie_tx_bytes_per_s as-is PCIe traffic from the GPU in bytes/s.
PROF_PCIE_RX_BYTES gauge pcie_rx_bytes_per_s as-is PCIe traffic to the GPU in bytes/s.
""")
MIG: Final = _table("""
DEV_FB_TOTAL gauge memory_total_bytes MiB Framebuffer in MiB.
DEV_FB_FREE gauge memory_free_bytes MiB Framebuffer free in MiB.
DEV_FB_USED gauge memory_used_bytes MiB Framebuffer used in MiB.
""")
NVLINK_MBPS_DOWN: Final = 1024 * 1000
"""DCGM counts KiB and divides by 1000; its field is a rate although its file says counter."""


def rows(page: Page, node: str, view: nodeview.NodeView, sample: Sample) -> None:
    """A node's GPUs and MIG instances."""
    numbers = nodeview.ordinals(view)
    labelled: list[tuple[Gpu, Labels]] = []
    split: list[tuple[MigInstance, Labels]] = []
    for gpu in sample.gpus:
        known = view.inventory.get(gpu.uuid)
        number = numbers[gpu.uuid]
        bus, name = (known.pci_bus_id, known.name) if known else (None, None)
        device = f"{nodeview.vendor(known)}{number}"
        head = texts(number, gpu.uuid, bus, device, name)
        tail = texts(node, view.driver_version)
        labelled.append((gpu, (*head, "", "", *tail)))
        split += [
            (mig, (*head, *texts(mig.profile, mig.gpu_instance_id), *tail)) for mig in gpu.mig
        ]
    page.fill(GPU, LABELS, labelled)
    page.fill(MIG, LABELS, split)
    _nvlink(page, labelled, view.before, sample.interval_ms)
    _xids(page, labelled, view)


def _nvlink(
    page: Page, labelled: list[tuple[Gpu, Labels]], before: Sample | None, interval_ms: int
) -> None:
    values = page.rows(
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "NVLink traffic, both ways, in MB/s.", LABELS
    )
    earlier = {gpu.uuid: _nvlink_bytes(gpu) for gpu in before.gpus} if before else {}
    for gpu, labels in labelled:
        now, then = _nvlink_bytes(gpu), earlier.get(gpu.uuid)
        if now is not None and then is not None and now >= then and interval_ms:
            values.setdefault(labels, (now - then) * 1000 / interval_ms / NVLINK_MBPS_DOWN)


def _nvlink_bytes(gpu: Gpu) -> int | None:
    if gpu.nvlink_tx_bytes is None or gpu.nvlink_rx_bytes is None:
        return None
    return gpu.nvlink_tx_bytes + gpu.nvlink_rx_bytes


def _xids(page: Page, labelled: list[tuple[Gpu, Labels]], view: nodeview.NodeView) -> None:
    """The last XID, which says neither when nor how often: ours is `windvane_gpu_xids_total`."""
    values = page.rows("DCGM_FI_DEV_XID_ERRORS", "The last XID.", LABELS)
    last: dict[str, tuple[int, float]] = {}
    for key, xids in view.xids.items():
        if key.code.isdecimal():
            found = (xids.last_unix_ms, float(key.code))
            last[key.gpu_uuid] = max(last.get(key.gpu_uuid, found), found)
    for gpu, labels in labelled:
        if gpu.uuid in last:
            values.setdefault(labels, last[gpu.uuid][1])
