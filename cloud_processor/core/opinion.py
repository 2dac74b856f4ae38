"""What a node looks like, from its newest live samples and the events that accuse it.

Load is judged on the mean over the node's GPUs of each one's mean over the last seconds,
moved by each sample: a node with one free GPU of eight is not saturated. A failed GPU
counts neither as busy nor as free. A GPU that gives no utilisation (a MIG parent) is left
out of the mean, and while there is one the node is never called idle. A suspended GPU is
at 0 %. An agent that looks rarely is judged over a window that still holds enough samples.

Samples come here in the order of their seqs: an older one never overwrites a newer one.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from cloud_processor.core import health, hysteresis
from cloud_processor.core.model import GpuHealth, GpuView, Settled, View
from cloud_processor.core.policy import Load, Policy
from cloud_processor.core.vocabulary import memory_bucket, worst
from wire import sample
from wire.verdict import GpuVerdict, Health

RECENT_MAX: Final = 600
PAST_MAX: Final = 8
THERMAL_REASONS: Final = frozenset({"hw-slowdown", "hw-thermal-slowdown", "sw-thermal-slowdown"})
POWER_REASONS: Final = frozenset({"sw-power-cap", "hw-power-brake-slowdown"})


class Summary(Struct, frozen=True):
    """Health of a node in a word, with its reasons, the gravest first."""

    health: Health
    reasons: tuple[str, ...]


def is_newer(view: View, epoch: str, seq: int) -> bool:
    """Whether this sample was taken after the newest one we know."""
    if epoch == view.epoch:
        return seq > view.seq
    return epoch not in view.past


def see(view: View, epoch: str, one: sample.Sample, rules: Policy, now_ms: int) -> View:
    """One fresh live sample later."""
    gpus = {
        gpu.uuid: _see_gpu(view.gpus.get(gpu.uuid), gpu, one, rules, now_ms) for gpu in one.gpus
    }
    for uuid, known in view.gpus.items():
        if uuid not in gpus and not _forgotten(known, rules, now_ms):
            gpus[uuid] = _not_seen(known, "gpu-missing", now_ms)
    past = view.past
    if epoch != view.epoch and view.epoch:
        past = (*past, view.epoch)[-PAST_MAX:]
    signals = rules.signals
    sound = [gpu for gpu in gpus.values() if gpu.health.health != "failed"]
    load = hysteresis.settle(
        view.load,
        _load(view.load, sound, rules.load),
        consecutive=rules.load.consecutive,
        hold_ms=rules.load.hold_ms,
        now_ms=now_ms,
    )

    def settled(state: Settled, seen: str) -> Settled:
        return hysteresis.settle(
            state, seen, consecutive=signals.consecutive, hold_ms=signals.hold_ms, now_ms=now_ms
        )

    return View(
        epoch,
        one.seq,
        past,
        gpus,
        load,
        settled(view.thermal, _thermal(sound)),
        settled(view.power, _power(sound)),
        settled(view.memory_free, _memory(sound)),
    )


def hear(view: View, event: sample.Event, rules: Policy, now_ms: int) -> View:
    """One fresh event later. An event of no GPU is that of the only one, if there is one."""
    uuid = event.gpu_uuid
    if uuid is None and len(view.gpus) == 1:
        uuid = next(iter(view.gpus))
    if uuid is None:
        return view
    known = view.gpus.get(uuid, GpuView())
    after = health.after_event(known.health, event, rules, now_ms)
    if after == known.health:
        return view
    return replace(view, gpus={**view.gpus, uuid: replace(known, health=after)})


def born(view: View, status: sample.Status) -> View:
    """A birth tells which GPUs there are; one that tells none says nothing about them."""
    if not status.gpus:
        return view
    listed = {gpu.uuid for gpu in status.gpus}
    gpus = {uuid: replace(gpu, listed=uuid in listed) for uuid, gpu in view.gpus.items()}
    return replace(view, gpus=gpus)


def forget(view: View, now_ms: int) -> View:
    """Silence: what changes by itself is not known any more. Health stands."""
    return replace(
        view,
        gpus={uuid: replace(gpu, recent=()) for uuid, gpu in view.gpus.items()},
        load=hysteresis.forget(view.load, now_ms),
        thermal=hysteresis.forget(view.thermal, now_ms),
        power=hysteresis.forget(view.power, now_ms),
        memory_free=hysteresis.forget(view.memory_free, now_ms),
    )


def summary(view: View, failed_gpu_share: float) -> Summary:
    """One bad GPU of many degrades a node; from the share on, the node has failed."""
    healths = [gpu.health.health for gpu in view.gpus.values()]
    failed = healths.count("failed")
    word = worst(healths)
    if failed and failed < failed_gpu_share * len(healths):
        word = "degraded"
    reasons: dict[str, None] = {}
    for grade in ("failed", "degraded", "unknown"):
        for gpu in view.gpus.values():
            if gpu.health.health == grade:
                reasons |= dict.fromkeys(gpu.health.reasons)
    return Summary(word, tuple(reasons)[: health.REASONS_MAX])


def gpu_verdicts(view: View) -> tuple[GpuVerdict, ...]:
    """The GPUs with their newest numbers, in a stable order."""
    return tuple(
        GpuVerdict(
            uuid=uuid,
            health=gpu.health.health,
            reasons=gpu.health.reasons,
            utilization_percent=_rounded(_mean(gpu.recent, 1)),
            temperature_c=gpu.temperature_c,
            power_mw=gpu.power_mw,
            memory_free_bytes=gpu.memory_free_bytes,
        )
        for uuid, gpu in sorted(view.gpus.items())
    )


def _see_gpu(
    known: GpuView | None, gpu: sample.Gpu, one: sample.Sample, rules: Policy, now_ms: int
) -> GpuView:
    known = known or GpuView()
    percent = 0.0 if gpu.state == "suspended" else gpu.utilization_percent
    window_ms = max(rules.load.window_ms, (rules.load.samples_min + 1) * one.cadence_ms)
    state = health.after_sample(known.health, gpu, rules.health, now_ms)
    if gpu.state == "unreachable" and state.health == "ok":
        state = GpuHealth(
            "unknown", ("gpu-unreachable",), now_ms, 0, state.relapses, state.recovered_ms
        )
    margin_c, slowdown_c = gpu.temperature_margin_c, gpu.temperature_slowdown_c
    if margin_c is None and gpu.temperature_c is not None and slowdown_c is not None:
        margin_c = slowdown_c - gpu.temperature_c
    hot = None if margin_c is None else margin_c <= rules.signals.hot_margin_c
    return GpuView(
        state,
        _recent(known.recent, one.ts_unix_ms, percent, window_ms),
        True,
        gpu.temperature_c,
        hot,
        gpu.throttle_reasons,
        gpu.power_mw,
        gpu.memory_free_bytes,
    )


def _not_seen(known: GpuView, reason: str, now_ms: int) -> GpuView:
    """A GPU that we know is not in the sample: nothing of it is known, but a fault stands."""
    state = known.health
    if state.health in {"ok", "unknown"} and state.reasons != (reason,):
        state = GpuHealth("unknown", (reason,), now_ms, 0, state.relapses, state.recovered_ms)
    return GpuView(state, listed=known.listed)


def _forgotten(known: GpuView, rules: Policy, now_ms: int) -> bool:
    """Taken out: the agent's birth does not list it, and no fault of it is fresh."""
    if known.listed:
        return False
    accused = known.health.health in {"failed", "degraded"}
    dwell_ms = health.dwell_ms(known.health, rules.health)
    return not accused or now_ms - known.health.since_ms >= dwell_ms


def _recent(
    recent: tuple[tuple[int, float], ...], ts_unix_ms: int, percent: float | None, window_ms: int
) -> tuple[tuple[int, float], ...]:
    if recent and recent[-1][0] > ts_unix_ms:  # the node's clock was set back
        recent = ()
    drop = max(0, len(recent) - RECENT_MAX + 1)
    while drop < len(recent) and recent[drop][0] <= ts_unix_ms - window_ms:
        drop += 1
    if percent is None:
        return recent[drop:]
    return (*recent[drop:], (ts_unix_ms, percent))


def _mean(recent: tuple[tuple[int, float], ...], least: int) -> float | None:
    if len(recent) < least:
        return None
    total = 0.0
    for _, percent in recent:
        total += percent
    return total / len(recent)


def _rounded(percent: float | None) -> float | None:
    return None if percent is None else min(100.0, round(percent, 1))


def _load(state: Settled, gpus: list[GpuView], rules: Load) -> str:
    means = [_mean(gpu.recent, rules.samples_min) for gpu in gpus]
    known = [mean for mean in means if mean is not None]
    if not known:
        return hysteresis.UNKNOWN
    band = hysteresis.band(state.value, sum(known) / len(known), rules)
    return hysteresis.UNKNOWN if band == "idle" and len(known) < len(means) else band


def _thermal(gpus: Iterable[GpuView]) -> str:
    word = hysteresis.UNKNOWN
    for gpu in gpus:
        if gpu.throttle_reasons and not THERMAL_REASONS.isdisjoint(gpu.throttle_reasons):
            return "throttled"
        if gpu.hot:
            word = "hot"
        elif word != "hot" and (gpu.hot is not None or gpu.throttle_reasons is not None):
            word = "ok"
    return word


def _power(gpus: Iterable[GpuView]) -> str:
    word = hysteresis.UNKNOWN
    for gpu in gpus:
        if gpu.throttle_reasons is None:
            continue
        if not POWER_REASONS.isdisjoint(gpu.throttle_reasons):
            return "capped"
        word = "ok"
    return word


def _memory(gpus: Iterable[GpuView]) -> str:
    free = [g.memory_free_bytes for g in gpus if g.memory_free_bytes is not None]
    return memory_bucket(max(free, default=None))
