"""Health of one GPU: quick to accuse on evidence, forgiven by evidence only.

A fatal event or a sample that shows a fault makes the GPU failed at once. It is well
again only when samples show it sound a number of times in a row and the dwell is over;
the dwell, counted from the last evidence,
doubles with each relapse. A GPU whose driver calls do not return is degraded, not failed:
an agent that gets no CPU time sees the same. Silence changes nothing here: missing data is no
evidence. What an application did to itself (XID 13, 31, …) is recorded elsewhere and
never gets here.
"""

from typing import Literal

import msgspec

from cloud_processor.core import policy
from cloud_processor.core.model import GpuHealth
from cloud_processor.core.vocabulary import HEALTHS
from wire import sample, xids

REASONS_MAX = 8
DOUBLINGS_MAX = 16


Grade = Literal["failed", "degraded"]


def faults_of(gpu: sample.Gpu) -> dict[str, Grade]:
    """What a sample itself shows to be wrong, and how wrong."""
    faults: dict[str, Grade] = {}
    if gpu.state == "lost":
        faults["gpu-lost"] = "failed"
    if gpu.state == "unresponsive":
        faults["gpu-unresponsive"] = "degraded"
    if gpu.recovery_action not in {None, "none"}:
        faults[f"needs-{gpu.recovery_action}"] = "failed"
    return faults


def after_event(
    state: GpuHealth, event: sample.Event, rules: policy.Policy, now_ms: int
) -> GpuHealth:
    """One event of this GPU later."""
    if event.event == "gpu-lost":
        return _accuse(state, "failed", "gpu-lost", rules.health, now_ms)
    if event.event != "xid" or event.xid is None:
        return state
    severity = policy.severity_of(rules, event.xid)
    if severity == "ignore":
        return state
    health: Grade = "failed" if severity == "fatal" else "degraded"
    return _accuse(state, health, f"xid-{event.xid}", rules.health, now_ms)


def after_sample(state: GpuHealth, gpu: sample.Gpu, rules: policy.Health, now_ms: int) -> GpuHealth:
    """One sample of this GPU later."""
    faults = faults_of(gpu)
    if faults:
        for fault, grade in faults.items():
            state = _accuse(state, grade, fault, rules, now_ms)
        return state
    if gpu.state != "ok":
        return state
    match state.health:
        case "ok":
            return state
        case "unknown":
            return msgspec.structs.replace(state, health="ok", reasons=(), since_ms=now_ms)
    sound = state.sound + 1
    if sound >= rules.sound_samples and now_ms - state.since_ms >= dwell_ms(state, rules):
        return GpuHealth("ok", (), now_ms, 0, state.relapses, now_ms)
    return msgspec.structs.replace(state, sound=min(sound, rules.sound_samples))


def dwell_ms(state: GpuHealth, rules: policy.Health) -> int:
    """How long this GPU stays accused at least."""
    doublings = min(state.relapses, DOUBLINGS_MAX)
    return min(rules.dwell_max_ms, int(rules.dwell_ms) << doublings)


def describe(reason: str) -> str:
    """A reason in words."""
    if reason.startswith("xid-"):
        found = xids.lookup(int(reason.removeprefix("xid-")))
        todo = "" if found.action == "none" else f"; {found.action}"
        is_grave = found.severity in {"degraded", "fatal"}
        named = f" ({found.name}{todo})" if is_grave else ""
        return f"XID {found.code}{named}"
    return reason.replace("-", " ")


def _accuse(
    state: GpuHealth,
    health: Grade,
    reason: str,
    rules: policy.Health,
    now_ms: int,
) -> GpuHealth:
    reasons = state.reasons if reason in state.reasons else (*state.reasons, reason)
    if state.health in {"failed", "degraded"}:
        worse = max(state.health, health, key=HEALTHS.index)
        return msgspec.structs.replace(
            state, health=worse, reasons=reasons[:REASONS_MAX], since_ms=now_ms, sound=0
        )
    recovered_ms = state.recovered_ms
    relapsed = recovered_ms is not None and now_ms - recovered_ms <= rules.relapse_memory_ms
    relapses = min(state.relapses + 1, DOUBLINGS_MAX) if relapsed else 0
    return GpuHealth(health, (reason,), now_ms, 0, relapses, recovered_ms)
