"""Windows: what the samples of some seconds amount to.

Adding and merging commute and associate (but for the last bits of a floating-point sum),
so order, lateness and the number of workers change nothing. That each sample is added
once is the gap ledger's work, not ours.
"""

from typing import Literal

from cloud_processor.core.model import GpuWindow, Meter, Moments, Window
from wire import aggregate, sample


def start_of(ts_unix_ms: int, size_ms: int) -> int:
    """The window that a time belongs to."""
    return ts_unix_ms - ts_unix_ms % size_ms


def add(window: Window, one: sample.Sample) -> Window:
    """The window with one more sample."""
    gpus = dict(window.gpus)
    for gpu in one.gpus:
        gpus[gpu.uuid] = _add_gpu(gpus.get(gpu.uuid, GpuWindow()), gpu, one.ts_unix_ms)
    return Window(window.samples + 1, gpus)


def merge(one: Window, other: Window) -> Window:
    """The window of the samples of both."""
    gpus = dict(one.gpus)
    for uuid, gpu in other.gpus.items():
        gpus[uuid] = _merge_gpu(gpus[uuid], gpu) if uuid in gpus else gpu
    return Window(one.samples + other.samples, gpus)


def to_aggregate(
    window: Window,
    *,
    cluster: str,
    node: str,
    start_unix_ms: int,
    size_ms: int,
    closed_by: Literal["watermark", "clock", "amended"],
) -> aggregate.Aggregate:
    """What is published of a window; the number of its samples is its revision."""
    return aggregate.Aggregate(
        v=sample.VERSION,
        cluster=cluster,
        node=node,
        window_start_unix_ms=start_unix_ms,
        window_ms=size_ms,
        revision=window.samples,
        samples=window.samples,
        closed_by=closed_by,
        gpus=tuple(_gpu_aggregate(uuid, window.gpus[uuid]) for uuid in sorted(window.gpus)),
    )


def _add_gpu(window: GpuWindow, gpu: sample.Gpu, ts_unix_ms: int) -> GpuWindow:
    energy = None
    if gpu.energy_mj is not None:
        energy = Meter(ts_unix_ms, gpu.energy_mj, ts_unix_ms, gpu.energy_mj)
    return GpuWindow(
        window.readings + 1,
        _add_value(window.utilization_percent, gpu.utilization_percent),
        _add_value(window.memory_used_bytes, gpu.memory_used_bytes),
        _add_value(window.power_mw, gpu.power_mw),
        _add_value(window.temperature_c, gpu.temperature_c),
        _merge_meters(window.energy_mj, energy),
    )


def _add_value(moments: Moments | None, value: float | None) -> Moments | None:
    if value is None:
        return moments
    if moments is None:
        return Moments(1, value, value, value)
    return Moments(
        moments.count + 1,
        moments.total + value,
        value if value < moments.low else moments.low,  # noqa: FURB136 - the hottest line; half
        value if value > moments.high else moments.high,  # noqa: FURB136 - the time of min, max
    )


def _merge_gpu(one: GpuWindow, other: GpuWindow) -> GpuWindow:
    return GpuWindow(
        one.readings + other.readings,
        _merge_moments(one.utilization_percent, other.utilization_percent),
        _merge_moments(one.memory_used_bytes, other.memory_used_bytes),
        _merge_moments(one.power_mw, other.power_mw),
        _merge_moments(one.temperature_c, other.temperature_c),
        _merge_meters(one.energy_mj, other.energy_mj),
    )


def _merge_moments(one: Moments | None, other: Moments | None) -> Moments | None:
    if one is None or other is None:
        return one or other
    return Moments(
        one.count + other.count,
        one.total + other.total,
        min(one.low, other.low),
        max(one.high, other.high),
    )


def _merge_meters(one: Meter | None, other: Meter | None) -> Meter | None:
    if one is None or other is None:
        return one or other
    first_ms, first = min((one.first_ms, one.first), (other.first_ms, other.first))
    last_ms, last = max((one.last_ms, one.last), (other.last_ms, other.last))
    return Meter(first_ms, first, last_ms, last)


def _gpu_aggregate(uuid: str, gpu: GpuWindow) -> aggregate.GpuAggregate:
    return aggregate.GpuAggregate(
        uuid=uuid,
        readings=gpu.readings,
        utilization_percent=_stat(gpu.utilization_percent),
        memory_used_bytes=_stat(gpu.memory_used_bytes),
        power_mw=_stat(gpu.power_mw),
        temperature_c=_stat(gpu.temperature_c),
        energy_mj=_growth(gpu.energy_mj),
    )


def _stat(moments: Moments | None) -> aggregate.Stat | None:
    if moments is None:
        return None
    return aggregate.Stat(
        count=moments.count,
        min=moments.low,
        mean=moments.total / moments.count,
        max=moments.high,
    )


def _growth(meter: Meter | None) -> int | None:
    """A counter that fell was reset; what was used meanwhile is not known."""
    if meter is None or meter.last < meter.first:
        return None
    return meter.last - meter.first
