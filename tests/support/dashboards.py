"""What public dashboards and counter files ask for: metrics and labels, as facts.

Collected 2026-12-01 from the repositories named below. `labels` are those that a query
selects or groups by; `instance` is left out, the scrape adds it. `unknowable` are labels or
metrics that an agent without Kubernetes credentials or DCGM cannot fill: a query with them
still matches, since Prometheus takes an absent label for an empty one.
"""

from typing import NamedTuple


class Query(NamedTuple):
    """One query of a dashboard."""

    metric: str
    labels: frozenset[str]
    unknowable: frozenset[str] = frozenset()


def _queries(text: str) -> tuple[Query, ...]:
    """Lines of a metric and its labels; a label after `?` is unknowable."""
    found = []
    for line in text.strip().splitlines():
        metric, *labels = line.split()
        found.append(
            Query(
                metric,
                frozenset(label for label in labels if label[0] != "?"),
                frozenset(label[1:] for label in labels if label[0] == "?"),
            )
        )
    return tuple(found)


# github.com/NVIDIA/dcgm-exporter grafana/dcgm-exporter-dashboard.json at 068798b0a1cb. Its
# grouping label `uuid` is unknown to dcgm-exporter as well, which writes `UUID`.
DCGM_REPOSITORY = _queries("""
DCGM_FI_DEV_GPU_TEMP Hostname gpu ?uuid
DCGM_FI_DEV_POWER_USAGE Hostname gpu ?uuid
DCGM_FI_DEV_SM_CLOCK Hostname gpu UUID
DCGM_FI_PROF_GR_ENGINE_ACTIVE Hostname gpu ?GPU_I_ID ?GPU_I_PROFILE
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE Hostname gpu ?GPU_I_ID ?GPU_I_PROFILE
DCGM_FI_DEV_FB_USED Hostname gpu GPU_I_ID GPU_I_PROFILE
DCGM_FI_DEV_FB_FREE Hostname gpu
""")

# Grafana dashboard 12239, as kept in the same repository at 1f7abdb7dc0f and, with the
# panels of its first revision, in Helm charts that carry it.
DCGM_GRAFANA_12239 = _queries("""
DCGM_FI_DEV_GPU_TEMP gpu
DCGM_FI_DEV_POWER_USAGE gpu
DCGM_FI_DEV_SM_CLOCK gpu
DCGM_FI_DEV_GPU_UTIL gpu
DCGM_FI_DEV_FB_USED gpu
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE gpu
DCGM_FI_DEV_MEM_COPY_UTIL gpu
DCGM_FI_DEV_PCIE_RX_THROUGHPUT gpu
DCGM_FI_DEV_PCIE_TX_THROUGHPUT gpu
DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL gpu
""")

# The same repository, etc/default-counters.csv at b54068a9feef and the metrics that
# etc/dcp-metrics-included.csv at 99a774bb9360 has beside them.
DCGM_COUNTERS = (
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_MEM_CLOCK",
    "DCGM_FI_DEV_MEMORY_TEMP",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
    "DCGM_FI_DEV_PCIE_RX_THROUGHPUT",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_ENC_UTIL",
    "DCGM_FI_DEV_DEC_UTIL",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_PCIE_TX_BYTES",
    "DCGM_FI_PROF_PCIE_RX_BYTES",
)
DCGM_COUNTERS_UNKNOWABLE = {"DCGM_FI_DEV_VGPU_LICENSE_STATUS": "a vGPU guest's licence"}

# github.com/sustainable-computing-io/kepler: grafana-dashboards/Kepler-Exporter.json at
# 0c2a4acffb4d (0.7), the label lists of pkg/metrics/consts at 00163dc00 (0.7), and the GPU
# metrics of enhancement proposal EP-003 of 2025-12-10 with power_collector.go at
# 028ae6193bd3 (0.11). `kepler_node_gpu_idle_watts` and `_active_watts` are left out: the
# lowest power seen is not an idle power.
KEPLER = _queries("""
kepler_container_gpu_joules_total pod_name ?container_namespace
kepler_container_gpu_joules_total container_id pod_name mode ?container_name ?container_namespace
kepler_node_gpu_joules_total package mode
kepler_process_gpu_joules_total pid container_id command mode ?vm_id
kepler_node_gpu_info node_name gpu gpu_uuid gpu_name vendor
kepler_node_gpu_joules_total node_name gpu gpu_uuid vendor
kepler_node_gpu_watts node_name gpu gpu_uuid gpu_name vendor
kepler_process_gpu_joules_total node_name pid comm gpu vendor state container_id
kepler_process_gpu_watts node_name pid comm gpu vendor state container_id ?exe ?type ?vm_id
kepler_process_gpu_compute_utilization node_name pid comm gpu vendor state container_id
kepler_container_gpu_joules_total node_name container_id gpu vendor state pod_id ?runtime
kepler_container_gpu_watts node_name container_id gpu vendor state pod_id ?container_name ?runtime
kepler_pod_gpu_joules_total node_name pod_id pod_name gpu vendor state ?pod_namespace
kepler_pod_gpu_watts node_name pod_id pod_name gpu vendor state ?pod_namespace
""")
