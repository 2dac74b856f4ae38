"""Energy and idleness of one GPU, counted from sample to sample.

Energy is the hardware's counter where there is one. Where there is none it is the power
read, times the time since the sample before, from the agent's start on; it is marked so
and never zero for want of a reading. A time longer than `GAP_MS_MAX` between two samples
is not credited: nobody knows what the GPU drew meanwhile.

A GPU is idle when no process is on it and nothing was computed since the sample before,
for at least `IDLE_AFTER_MS`: less is a pause between two jobs. The stretch then counts
whole, with the energy drawn in it. A suspended GPU is idle; whether one is that cannot be
read is not known.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wire.sample import Gpu

IDLE_AFTER_MS: Final = 60_000
GAP_MS_MAX: Final = 120_000


class Tally(Struct, frozen=True, kw_only=True):
    """What is known of one GPU so far. `stretch_*` is the idle stretch under way."""

    now_ms: int
    counter_mj: int | None = None
    integrated_mj: float | None = None
    idle_since_ms: int | None = None
    stretch_mj: float = 0.0
    total_ms: int = 0
    total_mj: float = 0.0


def step(before: Tally | None, gpu: Gpu, now_ms: int) -> tuple[Tally, Gpu]:
    """The tally after this sample, and the GPU with its energy and idleness filled in."""
    if before is None:
        before = Tally(now_ms=now_ms)
        dt_ms = 0
    else:
        dt_ms = max(0, now_ms - before.now_ms)
    integrated_mj = _integrated(before.integrated_mj, gpu, dt_ms)
    spent_mj = _spent(before, gpu, integrated_mj)
    tally = replace(before, now_ms=now_ms, counter_mj=gpu.energy_mj, integrated_mj=integrated_mj)
    idle = _is_idle(gpu)
    if not idle:
        tally = replace(tally, idle_since_ms=None, stretch_mj=0.0)
    elif before.idle_since_ms is None:
        tally = replace(tally, idle_since_ms=now_ms, stretch_mj=0.0)
    else:
        tally = _stretched(tally, before.idle_since_ms, dt_ms, spent_mj)
    return tally, _told(tally, gpu, idle)


def _stretched(tally: Tally, since_ms: int, dt_ms: int, spent_mj: float) -> Tally:
    """An idle stretch that went on for `dt_ms` more."""
    stretch_ms = tally.now_ms - since_ms
    stretch_mj = tally.stretch_mj + spent_mj
    if stretch_ms < IDLE_AFTER_MS:
        return replace(tally, stretch_mj=stretch_mj)
    if stretch_ms - dt_ms >= IDLE_AFTER_MS:  # it was counted before, up to now
        stretch_ms, stretch_mj = dt_ms, spent_mj
    return replace(
        tally,
        stretch_mj=stretch_mj,
        total_ms=tally.total_ms + stretch_ms,
        total_mj=tally.total_mj + stretch_mj,
    )


def _integrated(before_mj: float | None, gpu: Gpu, dt_ms: int) -> float | None:
    """Power times time; None until there was power over some time."""
    if gpu.energy_mj is not None:
        return before_mj
    power_mw = gpu.power_mean_mw if gpu.power_mean_mw is not None else gpu.power_mw
    if power_mw is None or not 0 < dt_ms <= GAP_MS_MAX:
        return before_mj
    return (before_mj or 0.0) + power_mw * dt_ms / 1000


def _spent(before: Tally, gpu: Gpu, integrated_mj: float | None) -> float:
    """Energy since the sample before; a counter that was set back says nothing."""
    if gpu.energy_mj is not None and before.counter_mj is not None:
        return float(max(0, gpu.energy_mj - before.counter_mj))
    return (integrated_mj or 0.0) - (before.integrated_mj or 0.0)


def _is_idle(gpu: Gpu) -> bool | None:
    """None when it is not known."""
    if gpu.state == "suspended":
        return True
    if gpu.state != "ok" or gpu.processes:
        return False
    if gpu.mig_enabled:
        return True  # a MIG parent has no utilisation; its processes tell
    percents = (gpu.utilization_percent, gpu.utilization_max_percent)
    known = [percent for percent in percents if percent is not None]
    return max(known) == 0 if known else None


def _told(tally: Tally, gpu: Gpu, idle: bool | None) -> Gpu:  # it may be unknown
    idle_ms = 0
    if tally.idle_since_ms is not None and tally.now_ms - tally.idle_since_ms >= IDLE_AFTER_MS:
        idle_ms = tally.now_ms - tally.idle_since_ms
    energy_mj, energy_method = gpu.energy_mj, gpu.energy_method
    if energy_mj is not None:
        energy_method = "counter"
    elif tally.integrated_mj is not None and gpu.state == "ok":
        energy_mj, energy_method = round(tally.integrated_mj), "integrated"
    return replace(
        gpu,
        energy_mj=energy_mj,
        energy_method=energy_method,
        idle_ms=None if idle is None else idle_ms,
        idle_total_ms=tally.total_ms,
        idle_energy_mj=None if energy_mj is None else round(tally.total_mj),
    )
