"""The agent's page under our own names: from what is known of each node to metric rows.

What is not known has no row; zero means zero. When the sample is stale, only its time
stays, with the counters of what was heard (XIDs come by ways of their own). A GPU that is
no longer in the sample is gone from the page.
"""

from collections.abc import Mapping
from typing import Final

from edge_agent.core import nodeview, quantities
from edge_agent.core.page import Family, Labels, Page, texts
from wire.sample import Gpu, GpuInventory, Process, Sample

PROCESSES_MAX: Final = 32

NODE: Final = ("cluster", "node")
GPU: Final = (*NODE, "gpu")
MIG: Final = (*GPU, "mig", "profile")
MIG_INFO: Final = (*MIG, "gpu_instance_id", "compute_instance_id")
PROCESS: Final = (*GPU, "pid", "name", "kind", "pod_uid", "container_id", "mig")
PROCESS_INFO: Final = (*PROCESS, "owner")
GPU_INFO: Final = (*GPU, *quantities.INVENTORY_LABELS, "driver_version")
XID: Final = (*GPU, "xid", "class")

Views = Mapping[tuple[str, str], nodeview.NodeView]


def families(views: Views, now_ms: int) -> list[Family]:
    """The whole page."""
    page = Page()
    for node, view in views.items():
        fresh = nodeview.is_fresh(view, now_ms)
        if view.sample is not None:
            _sample(page, node, view.sample)
        if view.sample is not None and fresh:
            _gpus(page, node, view, view.sample)
        _events(page, node, view, gone_is_known=fresh)
    return page.families()


def _sample(page: Page, node: Labels, sample: Sample) -> None:
    taken = page.rows(
        "windvane_sample_timestamp_seconds", "When the latest sample was taken.", NODE
    )
    taken[node] = sample.ts_unix_ms / 1000


def _gpus(page: Page, node: Labels, view: nodeview.NodeView, sample: Sample) -> None:
    _pace(page, node, sample)
    gpus = [(gpu, (*node, *texts(gpu.uuid))) for gpu in sample.gpus]
    up = page.rows("windvane_gpu_up", "1 when the GPU answers.", GPU)
    failed = page.rows(
        "windvane_gpu_readings_failed", "Values that could not be read this time.", GPU
    )
    for gpu, labels in gpus:
        up.setdefault(labels, float(gpu.state == "ok"))
        failed.setdefault(labels, float(len(gpu.errors)))
    page.fill(quantities.GPU, GPU, gpus)
    for gpu, labels in gpus:
        known = view.inventory.get(gpu.uuid)
        _words(page, gpu, labels)
        _throttled(page, gpu, labels)
        _mig(page, gpu, labels)
        _processes(page, gpu, labels, known)
        if known is not None:
            _inventory(page, labels, known, view.driver_version)


def _pace(page: Page, node: Labels, sample: Sample) -> None:
    invalid = page.rows(
        "windvane_sample_invalid_readings", "Values of the sample that could not be true.", NODE
    )
    invalid[node] = float(sample.invalid_count)
    if sample.interval_ms:
        rows = page.rows("windvane_sample_interval_seconds", "Time since the sample before.", NODE)
        rows[node] = sample.interval_ms / 1000
    if sample.cadence_ms:
        rows = page.rows("windvane_sample_cadence_seconds", "Time until the next sample.", NODE)
        rows[node] = sample.cadence_ms / 1000


def _words(page: Page, gpu: Gpu, labels: Labels) -> None:
    for field in quantities.GPU_TEXTS:
        value = getattr(gpu, field.field)
        if value is None:
            continue
        rows = page.rows(field.metric, field.text, (*GPU, field.label))
        words = (value,) if isinstance(value, str) else value
        for word in words:
            rows.setdefault((*labels, *texts(word)), 1.0)
        if not words:
            rows.setdefault((*labels, ""), 0.0)
        for word in field.vocabulary:
            rows.setdefault((*labels, word), 0.0)


def _throttled(page: Page, gpu: Gpu, labels: Labels) -> None:
    what = quantities.THROTTLED
    rows = page.rows(what.metric, what.text, (*GPU, "reason"), what.kind)
    for reason, spent_ms in (gpu.throttled_ms or {}).items():
        spent = what.unit.of(spent_ms)
        if spent is not None:
            rows.setdefault((*labels, *texts(reason)), spent)


def _mig(page: Page, gpu: Gpu, labels: Labels) -> None:
    instances = [(mig, (*labels, *texts(mig.uuid, mig.profile))) for mig in gpu.mig]
    info = page.rows("windvane_mig_info", "Instances of a GPU that is split.", MIG_INFO, "info")
    for mig, own in instances:
        info.setdefault((*own, *texts(mig.gpu_instance_id, mig.compute_instance_id)), 1.0)
    page.fill(quantities.MIG, MIG, instances)


def _processes(page: Page, gpu: Gpu, labels: Labels, known: GpuInventory | None) -> None:
    """The largest processes, and how many there are; none is told as none only when known."""
    listed = sorted(gpu.processes, key=_memory_first)[:PROCESSES_MAX]
    processes = [(process, _process_labels(process, labels)) for process in listed]
    info = page.rows("windvane_gpu_process_info", "Processes on the GPU.", PROCESS_INFO, "info")
    for process, own in processes:
        info.setdefault((*own, process.owner), 1.0)
    page.fill(quantities.PROCESS, PROCESS, processes)
    unreadable = "processes" in gpu.errors or (known and "processes" in known.unsupported)
    if gpu.state != "ok" or unreadable:
        return
    count = len(gpu.processes) + gpu.processes_omitted_count
    rows = page.rows("windvane_gpu_processes", "Processes on the GPU.", GPU)
    rows.setdefault(labels, float(count))
    rows = page.rows(
        "windvane_gpu_processes_omitted", "Processes that have no rows of their own here.", GPU
    )
    rows.setdefault(labels, float(count - len(listed)))


def _memory_first(process: Process) -> tuple[int, int]:
    return -(process.memory_used_bytes or 0), process.pid


def _process_labels(process: Process, labels: Labels) -> Labels:
    return (
        *labels,
        *texts(
            process.pid,
            process.name,
            process.kind,
            process.pod_uid,
            process.container_id,
            process.mig_uuid,
        ),
    )


def _inventory(page: Page, labels: Labels, known: GpuInventory, driver_version: str | None) -> None:
    info = page.rows("windvane_gpu_info", "What the GPU is.", GPU_INFO, "info")
    words = (getattr(known, name) for name in quantities.INVENTORY_LABELS)
    info.setdefault((*labels, *texts(*words, driver_version)), 1.0)
    page.fill(quantities.INVENTORY, GPU, [(known, labels)])


def _events(page: Page, node: Labels, view: nodeview.NodeView, *, gone_is_known: bool) -> None:
    """An XID is an event, not a level: a counter and the time of the last, per code."""
    events = page.rows(
        "windvane_events_total", "Events since the agent started.", (*NODE, "event"), "counter"
    )
    for name, count in view.events.items():
        events[(*node, name)] = float(count)
    present = {gpu.uuid for gpu in view.sample.gpus} if view.sample else set()
    counts = page.rows("windvane_gpu_xids_total", "XIDs since the agent started.", XID, "counter")
    times = page.rows("windvane_gpu_xid_timestamp_seconds", "When the XID came last.", XID)
    for key, xids in view.xids.items():
        if gone_is_known and key.gpu_uuid and key.gpu_uuid not in present:
            continue
        labels = (*node, *texts(key.gpu_uuid, key.code, key.xid_class))
        counts[labels] = float(xids.count)
        times[labels] = xids.last_unix_ms / 1000
