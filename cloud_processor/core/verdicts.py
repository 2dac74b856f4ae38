"""What is said of a node, and when.

A verdict is due when a word of it changes: load, health, heat, power, freshness, free
memory, pool, the reasons, the driver, the health of a GPU. Numbers alone are no news; they
come with the next verdict or heartbeat.

Freshness falls by the clock or by the agent's own death, never because an envelope was
read late: a worker that catches up must not see a silent fleet. What changes by itself
(load, heat, power, memory) is not known of a silent node; a fault is, and what was sound
is not any more once the node is lost. Its driver is what it told last, judged by the day.
"""

from typing import Any, Final

from msgspec.structs import replace

from cloud_processor.core import drivers, gaps, opinion, skew
from cloud_processor.core.model import NodeState, View
from cloud_processor.core.policy import Policy
from wire.sample import VERSION
from wire.verdict import Cause, Intake, Telemetry, Verdict

TELEMETRIES: Final[tuple[Telemetry, ...]] = ("fresh", "stale", "lost")


def conclude(
    state: NodeState,
    cause: Cause | None,
    policy: Policy,
    *,
    pool: str | None,
    now_ms: int,
    by_clock: bool,
) -> tuple[NodeState, Verdict | None]:
    """The state with its verdict, and the verdict if it is news. `cause` is None for the clock.

    A node that was never heard has no verdict.
    """
    if state.arrived_unix_ms is None:
        return state, None
    last = state.verdict
    telemetry = _telemetry(state, policy, now_ms, by_clock=by_clock)
    if telemetry != "fresh" and (last is None or last.telemetry == "fresh"):
        state = replace(state, view=opinion.forget(state.view, now_ms))
    new = _worded(state, telemetry, policy, pool, now_ms)
    if last is not None and _words(new) == _words(last) and _same_gpus(state.view, last):
        return state, None
    cause = cause or Cause(kind="silence", ts_unix_ms=now_ms)
    told = _numbered(replace(new, cause=cause), state, now_ms)
    return replace(state, verdict=told, published_ms=now_ms), told


def is_heartbeat_due(state: NodeState, policy: Policy, now_ms: int) -> bool:
    """Whether the last verdict is to be said again."""
    return state.verdict is not None and now_ms - state.published_ms >= policy.heartbeat_ms


def repeat(state: NodeState, now_ms: int) -> tuple[NodeState, Verdict]:
    """The last verdict again, with the newest numbers."""
    assert state.verdict is not None
    told = _numbered(state.verdict, state, now_ms)
    return replace(state, verdict=told, published_ms=now_ms), told


def _telemetry(state: NodeState, policy: Policy, now_ms: int, *, by_clock: bool) -> Telemetry:
    stale_ms, lost_ms = policy.telemetry.limits(state.cadence_ms)
    silent_ms = now_ms - (state.arrived_unix_ms or 0)
    found = (silent_ms >= stale_ms) + (silent_ms >= lost_ms)
    if not by_clock and state.verdict is not None:
        found = min(found, TELEMETRIES.index(state.verdict.telemetry))
    return TELEMETRIES[max(found, int(state.died))]


def _worded(
    state: NodeState, telemetry: Telemetry, policy: Policy, pool: str | None, now_ms: int
) -> Verdict:
    found = opinion.summary(state.view, policy.health.failed_gpu_share)
    health, reasons = found.health, found.reasons
    if telemetry == "lost" and health == "ok":
        health = "unknown"
    if telemetry != "fresh":
        reasons = (*reasons, "agent-gone" if state.died else "silent")
    view: Any = state.view  # its settled values are words of the contract
    return Verdict(
        v=VERSION,
        cluster=state.cluster,
        node=state.node,
        pool=pool,
        revision=1 if state.verdict is None else state.verdict.revision + 1,
        load=view.load.value,
        health=health,
        thermal=view.thermal.value,
        power=view.power.value,
        telemetry=telemetry,
        memory_free=view.memory_free.value,
        reasons=reasons,
        ts_unix_ms=0,
        arrived_unix_ms=None,
        clock_skew_ms=None,
        cause=Cause(kind="silence", ts_unix_ms=0),
        gpus=(),
        intake=None,
        driver=drivers.judged(state.driver, now_ms),
    )


def _numbered(said: Verdict, state: NodeState, now_ms: int) -> Verdict:
    return replace(
        said,
        ts_unix_ms=now_ms,
        arrived_unix_ms=state.arrived_unix_ms,
        clock_skew_ms=skew.ahead_ms(state.skew),
        gpus=opinion.gpu_verdicts(state.view),
        intake=_intake(state),
    )


def _intake(state: NodeState) -> Intake | None:
    """Of the newest sample's epoch; before there is one, of the epoch that came last."""
    intakes = state.books.intakes
    if not intakes:
        return None
    return gaps.summary(gaps.find(intakes, state.view.epoch or intakes[-1].epoch))


def _words(said: Verdict) -> tuple[Any, ...]:
    return (
        said.load,
        said.health,
        said.thermal,
        said.power,
        said.telemetry,
        said.memory_free,
        said.pool,
        said.reasons,
        said.driver,
    )


def _same_gpus(view: View, last: Verdict) -> bool:
    if len(view.gpus) != len(last.gpus):
        return False
    for told in last.gpus:
        known = view.gpus.get(told.uuid)
        if known is None or (known.health.health, known.health.reasons) != (
            told.health,
            told.reasons,
        ):
            return False
    return True
