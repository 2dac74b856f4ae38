"""The page's GPU values as Kepler names them: those of 0.7 and of 0.11, which partly agree.

Names, labels and units as read on 2026-12-01; where both versions have a metric it carries
the labels of both. How energy is shared among processes is told in `attribution`. The agent
does not know the names of pods: `pod_name` holds the pod's UID, the namespace is absent.
All energy has the mode `dynamic`; there is no `kepler_node_gpu_idle_watts`, since the lowest
power seen need not be an idle one.
"""

from collections.abc import Mapping
from typing import Final

from edge_agent.core import attribution, nodeview
from edge_agent.core.page import Labels, Page, texts
from edge_agent.core.quantities import Kind
from wire.sample import Sample

NODE: Final = (
    "node_name",
    "gpu",
    "gpu_uuid",
    "gpu_name",
    "vendor",
    "package",
    "mode",
)
WHO: Final[Mapping[attribution.Level, Labels]] = {
    "process": ("pid", "comm", "command", "container_id"),
    "container": ("container_id", "pod_id", "pod_name"),
    "pod": ("pod_id", "pod_name"),
}
WHAT: Final[Mapping[str, tuple[Kind, str]]] = {
    "watts": ("gauge", "Share of the GPU's power."),
    "joules_total": ("counter", "Share of the GPU's energy while the agent ran."),
    "compute_utilization": ("gauge", "Share of the multiprocessors' time, 0 to 1."),
}
SHARED: Final = ("node_name", "gpu", "vendor", "state", "mode")


def rows(page: Page, node: str, view: nodeview.NodeView, sample: Sample) -> None:
    """A node's GPUs, and what processes, containers and pods have of them."""
    numbers = nodeview.ordinals(view)
    vendors = {gpu.uuid: nodeview.vendor(view.inventory.get(gpu.uuid)) for gpu in sample.gpus}
    info = page.rows("kepler_node_gpu_info", "GPUs of the node.", NODE[:5])
    watts = page.rows("kepler_node_gpu_watts", "Power of the GPU.", NODE[:5])
    joules = page.rows("kepler_node_gpu_joules_total", "Energy of the GPU.", NODE, "counter")
    for gpu in sample.gpus:
        known = view.inventory.get(gpu.uuid)
        number = str(numbers[gpu.uuid])
        name = known.name if known else None
        labels = texts(node, number, gpu.uuid, name, vendors[gpu.uuid])
        info.setdefault(labels, 1.0)
        if gpu.energy_mj is not None:
            joules.setdefault((*labels, number, "dynamic"), gpu.energy_mj / 1000)
        shared = _shared(node, number, vendors[gpu.uuid])
        for process in gpu.processes:
            if process.sm_utilization_percent is not None:
                who = attribution.as_process(gpu, process)
                share = process.sm_utilization_percent / 100
                _share(page, who, "compute_utilization", shared, share)
        if gpu.power_mw is not None:
            watts.setdefault(labels, gpu.power_mw / 1000)
            for who, share in attribution.shares(gpu).items():
                _share(page, who, "watts", shared, gpu.power_mw * share / 1000)
    for who, used_mj in view.ledger.used_mj.items():
        shared = _shared(node, str(numbers[who.gpu_uuid]), vendors[who.gpu_uuid])
        _share(page, who, "joules_total", shared, used_mj / 1000)


def _shared(node: str, number: str, vendor: str) -> Labels:
    return texts(node, number, vendor, "running", "dynamic")


def _share(page: Page, who: attribution.Consumer, what: str, shared: Labels, value: float) -> None:
    names = (*WHO[who.level], *SHARED)
    kind, text = WHAT[what]
    values = page.rows(f"kepler_{who.level}_gpu_{what}", text, names, kind)
    own = {
        "process": (who.pid, who.name, who.name, who.container_id),
        "container": (who.container_id, who.pod_uid, who.pod_uid),
        "pod": (who.pod_uid, who.pod_uid),
    }[who.level]
    values.setdefault((*texts(*own), *shared), value)
