"""What a node deserves by its verdict alone: labels, and taints before the pool is asked.

| verdict | taint | until |
|---|---|---|
| health `failed` | `gpu-failed=<first reason>`, hard | health is not `failed` |
| load `saturated` | `gpu-saturated=saturated`, soft | load is known and lower |
| silent longer than the grace | `gpu-silent=<stale or lost>`, soft | it is heard, and the grace |

Silence is not a confirmed fault, so its taint only asks. Load is not known of a silent node
and not at once when it is heard again; for the grace, before and after, soft taints stay as
they are, so that an outage of the monitor never makes a busy node look free.
"""

from cloud_processor.core.model import Member
from cloud_processor.core.policy import Policy
from cloud_processor.core.vocabulary import label_value
from wire.verdict import Taint, Verdict


def labels(verdict: Verdict, domain: str) -> dict[str, str]:
    """Every label, each time: a value that is not known is written as such.

    Only that of the driver is for nodes that have told of an NVIDIA GPU; until one does,
    it is `unsaid`.
    """
    found = {
        f"{domain}/gpu.load": verdict.load,
        f"{domain}/gpu.health": verdict.health,
        f"{domain}/gpu.thermal": verdict.thermal,
        f"{domain}/gpu.power": verdict.power,
        f"{domain}/gpu.telemetry": verdict.telemetry,
        f"{domain}/gpu.memory-free": label_value(verdict.memory_free),
    }
    if verdict.driver is not None:
        found[f"{domain}/driver.compatibility"] = verdict.driver.compatibility
    return found


def unsaid(verdict: Verdict, domain: str) -> tuple[str, ...]:
    """Labels of which this verdict says nothing: they stay as they are."""
    return () if verdict.driver is not None else (f"{domain}/driver.compatibility",)


def taints(member: Member, policy: Policy, now_ms: int) -> tuple[Taint, ...]:
    """Whatever the pool may bear, sorted."""
    verdict, domain = member.verdict, policy.domain
    found = []
    if verdict.health == "failed":
        reason = label_value(verdict.reasons[0]) if verdict.reasons else "failed"
        effect = policy.health.failed_effect
        found.append(Taint(key=f"{domain}/gpu-failed", value=reason, effect=effect))
    if verdict.load == "saturated":
        found.append(_soft(f"{domain}/gpu-saturated", "saturated"))
    silent_ms = _since(member.silent_since_ms, now_ms)
    back_ms = _since(member.back_ms, now_ms)
    grace_ms = policy.silence.grace_ms
    if silent_ms is not None and silent_ms >= grace_ms:
        found.append(_soft(f"{domain}/gpu-silent", verdict.telemetry))
    elif silent_ms is not None or (
        verdict.load == "unknown" and back_ms is not None and back_ms < grace_ms
    ):
        found += [t for t in member.granted if not is_hard(t)]
    return tuple(sorted(set(found)))


def is_hard(taint: Taint) -> bool:
    """Whether it keeps pods out; a soft one only asks."""
    return taint.effect != "PreferNoSchedule"


def _soft(key: str, value: str) -> Taint:
    return Taint(key=key, value=value, effect="PreferNoSchedule")


def _since(then_ms: int | None, now_ms: int) -> int | None:
    return None if then_ms is None else now_ms - then_ms
