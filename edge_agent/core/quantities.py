"""The page's own metrics: one row for each quantity of the contract.

Names follow Prometheus: base units (shares from 0 to 1, seconds, bytes, watts, joules,
hertz), counters end in `_total`. A field's unit stands at the end of its name in the
contract, and `UNITS` turns it into the base unit. Tests tie the rows to the structs, so
that a new field cannot be forgotten.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Final, Literal, get_args

from msgspec import Struct

from wire.sample import GpuState

Kind = Literal["gauge", "counter", "info", "unknown"]
"""`unknown` is for counters whose foreign name lacks `_total`, which OpenMetrics forbids."""


class Unit(Struct, frozen=True):
    """A unit of the contract: `value * up / down` is in the unit that `name` names."""

    name: str
    up: int = 1
    down: int = 1

    def of(self, value: float) -> float | None:
        """The value in this unit; None for what is no number that can be shown."""
        try:
            converted = value * self.up / self.down
        except OverflowError:
            return None
        return converted if isfinite(converted) else None


UNITS: Final[Mapping[str, Unit]] = {
    "percent": Unit("ratio", down=100),
    "mw": Unit("watts", down=1000),
    "mj": Unit("joules", down=1000),
    "ms": Unit("seconds", down=1000),
    "mhz": Unit("hertz", up=1_000_000),
    "c": Unit("celsius"),
    "bytes": Unit("bytes"),
    "bytes_per_s": Unit("bytes_per_second"),
    "rpm": Unit("rpm"),
}
PLAIN: Final = Unit("")


class Quantity(Struct, frozen=True):
    """One field and the metric it becomes."""

    field: str
    metric: str
    text: str
    kind: Kind = "gauge"
    unit: Unit = PLAIN


class TextField(Struct, frozen=True):
    """A field that holds words: each is a row with the word as label and the value 1.

    Those of the `vocabulary` that are not there have a row with 0.
    """

    field: str
    metric: str
    label: str
    text: str
    vocabulary: tuple[str, ...] = ()


def _rows(prefix: str, table: str) -> tuple[Quantity, ...]:
    """Quantities from lines of field, metric and help; a unit is found by its suffix."""
    return tuple(_quantity(prefix, *line.split(maxsplit=2)) for line in table.strip().splitlines())


def _quantity(prefix: str, field: str, metric: str, text: str) -> Quantity:
    unit = next((u for suffix, u in UNITS.items() if field.endswith(f"_{suffix}")), PLAIN)
    kind: Kind = "counter" if metric.endswith("_total") else "gauge"
    return Quantity(field, prefix + metric, text, kind, unit)


GPU: Final = _rows(
    "windvane_gpu_",
    """
utilization_percent utilization_ratio Share of time in which a kernel ran.
utilization_mean_percent utilization_mean_ratio Mean utilization since the sample before.
utilization_max_percent utilization_max_ratio Highest utilization since the sample before.
memory_utilization_percent memory_utilization_ratio Share of time in which memory was accessed.
encoder_utilization_percent encoder_utilization_ratio Utilization of the video encoders.
decoder_utilization_percent decoder_utilization_ratio Utilization of the video decoders.
jpeg_utilization_percent jpeg_utilization_ratio Utilization of the JPEG engines.
ofa_utilization_percent ofa_utilization_ratio Utilization of the optical flow engines.
graphics_active_percent graphics_active_ratio Share of time in which graphics or compute was active.
sm_active_percent sm_active_ratio Share of time in which a multiprocessor had work.
sm_occupancy_percent sm_occupancy_ratio Resident warps, as a share of the most possible.
tensor_active_percent tensor_active_ratio Share of cycles in which the tensor cores were active.
memory_active_percent memory_active_ratio Share of cycles with the memory interface active.
fp64_active_percent fp64_active_ratio Share of cycles in which the FP64 units were active.
fp32_active_percent fp32_active_ratio Share of cycles in which the FP32 units were active.
fp16_active_percent fp16_active_ratio Share of cycles in which the FP16 units were active.
memory_total_bytes memory_total_bytes Memory of the GPU.
memory_used_bytes memory_used_bytes Memory in use.
memory_free_bytes memory_free_bytes Memory that can be had.
memory_reserved_bytes memory_reserved_bytes Memory that the driver keeps for itself.
bar1_total_bytes bar1_total_bytes BAR1 window.
bar1_used_bytes bar1_used_bytes BAR1 window in use.
power_mw power_watts Power drawn.
power_mean_mw power_mean_watts Mean power since the sample before.
power_max_mw power_max_watts Highest power since the sample before.
power_limit_mw power_limit_watts Power limit in force.
energy_mj energy_joules_total Energy; energy_method tells since when.
temperature_c temperature_celsius Temperature of the chip.
temperature_hotspot_c temperature_hotspot_celsius Temperature of the chip's hottest place.
temperature_memory_c temperature_memory_celsius Temperature of the memory.
temperature_slowdown_c temperature_slowdown_celsius Temperature at which clocks fall.
temperature_margin_c temperature_margin_celsius Degrees left until clocks fall.
fan_percent fan_speed_ratio Fan speed as a share of the highest.
fan_rpm fan_speed_rpm Fan speed in turns a minute.
graphics_clock_mhz graphics_clock_hertz Clock of the graphics engine.
sm_clock_mhz sm_clock_hertz Clock of the multiprocessors.
memory_clock_mhz memory_clock_hertz Clock of the memory.
video_clock_mhz video_clock_hertz Clock of the video engines.
performance_state performance_state Performance state, 0 (highest) to 15.
ecc_corrected_count ecc_corrected_total Corrected memory errors since the driver was loaded.
ecc_uncorrected_count ecc_uncorrected_total Uncorrected memory errors since the driver was loaded.
ecc_corrected_lifetime_count ecc_corrected_lifetime_total Corrected ones in the board's life.
ecc_uncorrected_lifetime_count ecc_uncorrected_lifetime_total Uncorrected ones in the board's life.
retired_pages_single_bit_count retired_pages_single_bit Memory pages retired for single-bit errors.
retired_pages_double_bit_count retired_pages_double_bit Memory pages retired for double-bit errors.
retired_pages_pending retired_pages_pending 1 when a page is retired at the next reset.
remapped_rows_corrected_count remapped_rows_corrected Rows remapped for corrected errors.
remapped_rows_uncorrected_count remapped_rows_uncorrected Rows remapped for uncorrected errors.
remapped_rows_pending remapped_rows_pending 1 when a row is remapped at the next reset.
remapped_rows_failed remapped_rows_failed 1 when remapping a row has failed.
pcie_generation pcie_generation PCIe generation of the link now.
pcie_width pcie_width PCIe lanes of the link now.
pcie_tx_bytes_per_s pcie_transmit_bytes_per_second PCIe traffic from the GPU.
pcie_rx_bytes_per_s pcie_receive_bytes_per_second PCIe traffic to the GPU.
pcie_replay_count pcie_replays_total PCIe replays.
nvlink_active_count nvlink_active NVLinks that are up.
nvlink_tx_bytes nvlink_transmit_bytes_total Bytes sent over NVLink.
nvlink_rx_bytes nvlink_receive_bytes_total Bytes received over NVLink.
nvlink_error_count nvlink_errors_total Errors of the NVLinks.
mig_enabled mig_enabled 1 when the GPU is split into MIG instances.
persistence_mode persistence_mode 1 when the driver stays loaded without clients.
idle_ms idle_current_seconds How long the GPU has been idle; 0 while in use.
idle_total_ms idle_seconds_total Idle time since the agent started.
idle_energy_mj idle_energy_joules_total Energy drawn while idle since the agent started.
""",
)

THROTTLED: Final = Quantity(
    "throttled_ms",
    "windvane_gpu_throttled_seconds_total",
    "Time spent with lowered clocks, by reason.",
    "counter",
    UNITS["ms"],
)

GPU_TEXTS: Final = (
    TextField(
        "state",
        "windvane_gpu_state",
        "state",
        "1 for the GPU's state, 0 for the others.",
        get_args(GpuState),
    ),
    TextField("memory_method", "windvane_gpu_memory_method", "method", "How memory is counted."),
    TextField("energy_method", "windvane_gpu_energy_method", "method", "How energy is counted."),
    TextField(
        "throttle_reasons",
        "windvane_gpu_throttle_active",
        "reason",
        "1 for each reason why clocks are low now; 0 without a reason when there is none.",
    ),
    TextField(
        "recovery_action",
        "windvane_gpu_recovery_action",
        "action",
        "What the driver asks for to recover the GPU.",
    ),
    TextField(
        "nvlink_down",
        "windvane_gpu_nvlink_down",
        "link",
        "1 for each NVLink that is down; 0 without a link when there is none.",
    ),
    TextField("fabric_state", "windvane_gpu_fabric_state", "state", "State of the NVLink fabric."),
    TextField(
        "confidential_compute",
        "windvane_gpu_confidential_compute",
        "mode",
        "Mode of confidential computing.",
    ),
)

INVENTORY: Final = _rows(
    "windvane_gpu_",
    """
power_limit_default_mw power_limit_default_watts Power limit as shipped.
power_limit_min_mw power_limit_min_watts Lowest power limit that can be set.
power_limit_max_mw power_limit_max_watts Highest power limit that can be set.
temperature_shutdown_c temperature_shutdown_celsius Temperature at which the GPU turns off.
graphics_clock_max_mhz graphics_clock_max_hertz Highest clock of the graphics engine.
sm_clock_max_mhz sm_clock_max_hertz Highest clock of the multiprocessors.
memory_clock_max_mhz memory_clock_max_hertz Highest clock of the memory.
video_clock_max_mhz video_clock_max_hertz Highest clock of the video engines.
pcie_generation_max pcie_generation_max Highest PCIe generation of GPU and slot.
pcie_width_max pcie_width_max Most PCIe lanes of GPU and slot.
nvlink_count nvlinks NVLinks that the GPU has.
""",
)
INVENTORY_LABELS: Final = (
    "vendor",
    "name",
    "serial",
    "pci_bus_id",
    "architecture",
    "compute_capability",
    "vbios_version",
    "board_part_number",
    "numa_node",
    "integrated",
    "method",
)

MIG: Final = _rows(
    "windvane_mig_",
    """
multiprocessor_count multiprocessors Multiprocessors of the MIG instance.
memory_total_bytes memory_total_bytes Memory of the MIG instance.
memory_used_bytes memory_used_bytes Memory of the MIG instance in use.
memory_free_bytes memory_free_bytes Memory of the MIG instance that can be had.
""",
)

PROCESS: Final = _rows(
    "windvane_gpu_process_",
    """
memory_used_bytes memory_used_bytes GPU memory of the process.
sm_utilization_percent sm_utilization_ratio Share of time it had the multiprocessors.
memory_utilization_percent memory_utilization_ratio Share of time it used memory.
encoder_utilization_percent encoder_utilization_ratio Share of the video encoders it used.
decoder_utilization_percent decoder_utilization_ratio Share of the video decoders it used.
""",
)
