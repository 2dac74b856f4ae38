"""The by-node step: envelopes of one node in, aggregates and verdicts out.

Every new record is counted (`books`). Only fresh samples of the live lane, in the order of
their seqs, move the opinion of the node (`opinion`); the past repairs history and steers
nothing. Events accuse at once. Silence is found by the clock, and never makes a node look
better. Freshness is judged by arrival at the bridge, less what the clocks differ (`skew`).

A verdict is published when a word of it changes, and again each heartbeat.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from cloud_processor.core import books, drivers, opinion, skew, verdicts, window
from cloud_processor.core.model import NodeState, Window
from cloud_processor.core.policy import Policy
from wire import aggregate, sample, topics, verdict

NEVER_MS: Final = 2**53


class EmitAggregate(Struct, frozen=True):
    """Publish a window's aggregate."""

    aggregate: aggregate.Aggregate


class EmitVerdict(Struct, frozen=True):
    """Publish the verdict; `changed` is false for a heartbeat."""

    verdict: verdict.Verdict
    changed: bool


class StoreWindow(Struct, frozen=True):
    """Keep a closed window: samples may still come for it."""

    start_unix_ms: int
    window: Window


class DropWindow(Struct, frozen=True):
    """A stored window is complete, or given up: it will not be asked for again."""

    start_unix_ms: int


class Report(Struct, frozen=True):
    """Something noteworthy for the log and a counter."""

    name: str
    detail: str


Action = EmitAggregate | EmitVerdict | StoreWindow | DropWindow | Report
Step = tuple[NodeState, tuple[Action, ...]]


class Turn(Struct):
    """A step while it is worked on; `cause` is the last record that moved the opinion."""

    state: NodeState
    policy: Policy
    now_ms: int
    actions: list[Action] = []
    cause: verdict.Cause | None = None


class Arrival(Struct, frozen=True):
    """An envelope, how it came, and when it arrived at the bridge."""

    envelope: sample.Envelope
    lane: topics.Lane
    arrived_unix_ms: int


def fresh(cluster: str, node: str) -> NodeState:
    """A node of which nothing is known."""
    return NodeState(cluster=cluster, node=node)


def windows_needed(state: NodeState, envelope: sample.Envelope, policy: Policy) -> frozenset[int]:
    """Starts of the stored windows that `receive` wants in `closed` for this envelope."""
    return books.needed(state.books, envelope, policy.windows.size_ms)


def receive(
    state: NodeState,
    envelope: sample.Envelope,
    *,
    lane: topics.Lane,
    arrived_unix_ms: int,
    closed: Mapping[int, Window],
    policy: Policy,
    pool: str | None,
    now_ms: int,
) -> Step:
    """One envelope later."""
    counted = books.take(
        state.books, envelope, lane=lane, closed=closed, rules=policy.windows, now_ms=now_ms
    )
    turn = Turn(replace(state, books=counted.books), policy, now_ms)
    _tell_books(turn, counted)
    came = Arrival(envelope, lane, arrived_unix_ms)
    if lane == "live":
        _measure_clock(turn, came)
    for record in counted.fresh:
        match record:
            case sample.Sample() if lane == "live":
                _see(turn, came, record)
            case sample.Event() if lane in {"live", "events"}:
                _hear(turn, came, record)
            case sample.Status():
                _note_status(turn, came, record)
            case sample.Loss():
                told = f"{record.seq_from}-{record.seq_to} of {record.lost_epoch}: {record.cause}"
                turn.actions.append(Report("loss", told))
            case _:  # history: counted, and that is all
                pass
    _conclude(turn, pool, by_clock=False)
    return turn.state, tuple(turn.actions)


def tick(state: NodeState, *, policy: Policy, pool: str | None, now_ms: int) -> Step:
    """Some time later: windows close without traffic, silence shows, a heartbeat is due."""
    counted = books.idle(state.books, rules=policy.windows, now_ms=now_ms)
    turn = Turn(replace(state, books=counted.books), policy, now_ms)
    _tell_books(turn, counted)
    _conclude(turn, pool, by_clock=True)
    if verdicts.is_heartbeat_due(turn.state, policy, now_ms):
        turn.state, again = verdicts.repeat(turn.state, now_ms)
        turn.actions.append(EmitVerdict(again, changed=False))
    return turn.state, tuple(turn.actions)


def next_due_ms(state: NodeState, policy: Policy) -> int:
    """When `tick` has something to do at the latest, if no envelope comes before."""
    due_ms = NEVER_MS
    if state.books.open:
        due_ms = state.books.counted_at_ms + policy.windows.idle_ms
    if state.verdict is not None and state.arrived_unix_ms is not None:
        due_ms = min(due_ms, state.published_ms + policy.heartbeat_ms)
        stale_ms, lost_ms = policy.telemetry.limits(state.cadence_ms)
        if state.verdict.telemetry == "fresh":
            due_ms = min(due_ms, state.arrived_unix_ms + stale_ms)
        elif state.verdict.telemetry == "stale":
            due_ms = min(due_ms, state.arrived_unix_ms + lost_ms)
    return due_ms


def _conclude(turn: Turn, pool: str | None, *, by_clock: bool) -> None:
    turn.state, changed = verdicts.conclude(
        turn.state, turn.cause, turn.policy, pool=pool, now_ms=turn.now_ms, by_clock=by_clock
    )
    if changed is not None:
        turn.actions.append(EmitVerdict(changed, changed=True))


def _tell_books(turn: Turn, counted: books.Outcome) -> None:
    state, tell = turn.state, turn.actions.append
    for start, content, closed_by in counted.closed:
        told = window.to_aggregate(
            content,
            cluster=state.cluster,
            node=state.node,
            start_unix_ms=start,
            size_ms=turn.policy.windows.size_ms,
            closed_by=closed_by,
        )
        tell(EmitAggregate(told))
    for start, content in counted.stored:
        tell(StoreWindow(start, content))
    for start in counted.dropped:
        tell(DropWindow(start))
    for start in counted.forgotten:
        tell(Report("window-forgotten", f"{start}: too many or too old, not complete"))
    for first, last in counted.given_up:
        tell(Report("gap-given-up", f"{first}-{last}: too many gaps"))
    if counted.duplicates:
        tell(Report("duplicate", f"{counted.duplicates} records were here before"))
    if counted.clock_set_back:
        tell(Report("clock-set-back", "samples are older than those before them"))


def _measure_clock(turn: Turn, came: Arrival) -> None:
    state, envelope = turn.state, came.envelope
    newest = any(
        not isinstance(r, sample.Status) and opinion.is_newer(state.view, envelope.epoch, r.seq)
        for r in envelope.records
    )
    known = skew.after(
        state.skew,
        sent_unix_ms=envelope.sent_unix_ms,
        arrived_unix_ms=came.arrived_unix_ms,
        newest=newest,
    )
    ahead_ms = skew.ahead_ms(known) or 0
    skewed = abs(ahead_ms) > turn.policy.telemetry.skew_max_ms
    if skewed and not known.told:
        turn.actions.append(Report("clock-skew", f"the node's clock is {ahead_ms} ms ahead"))
    turn.state = replace(state, skew=replace(known, told=skewed))


def _age_ms(turn: Turn, came: Arrival, ts_unix_ms: int) -> int:
    return skew.age_ms(
        turn.state.skew,
        ts_unix_ms=ts_unix_ms,
        sent_unix_ms=came.envelope.sent_unix_ms,
        arrived_unix_ms=came.arrived_unix_ms,
    )


def _see(turn: Turn, came: Arrival, record: sample.Sample) -> None:
    state, policy = turn.state, turn.policy
    if _age_ms(turn, came, record.ts_unix_ms) > policy.telemetry.live_age_max_ms:
        return
    epoch = came.envelope.epoch
    if opinion.is_newer(state.view, epoch, record.seq):
        view = opinion.see(state.view, epoch, record, policy, turn.now_ms)
        state = replace(state, view=view, cadence_ms=record.cadence_ms)
        turn.cause = _cause("sample", record, came)
    turn.state = replace(state, arrived_unix_ms=_latest(state, came), died=False)


def _hear(turn: Turn, came: Arrival, record: sample.Event) -> None:
    policy, view = turn.policy, turn.state.view
    told = record.event if record.xid is None else f"{record.event} {record.xid}"
    age_ms = _age_ms(turn, came, record.ts_unix_ms)
    if age_ms > policy.health.event_age_max_ms:
        turn.actions.append(Report("event-too-old", f"{told}: {age_ms} ms"))
        return
    if record.gpu_uuid is not None and record.gpu_uuid not in view.gpus:
        turn.actions.append(Report("unknown-gpu", f"{told} of {record.gpu_uuid}"))
    heard = opinion.hear(view, record, policy, turn.now_ms)
    if heard is view:
        turn.actions.append(Report("event-noted", told))
        return
    turn.state = replace(turn.state, view=heard)
    turn.cause = _cause("event", record, came)


def _note_status(turn: Turn, came: Arrival, record: sample.Status) -> None:
    state = turn.state
    if record.state == "birth":
        view = opinion.born(state.view, record)
        driver = drivers.born(state.driver, record)
        turn.state = replace(
            state, died=False, view=view, driver=driver, arrived_unix_ms=_latest(state, came)
        )
    else:
        turn.state = replace(state, died=True)
    turn.actions.append(Report(f"agent-{record.state}", record.reason or record.agent_version))
    turn.cause = verdict.Cause(
        kind="status", ts_unix_ms=record.ts_unix_ms, epoch=came.envelope.epoch
    )


def _latest(state: NodeState, came: Arrival) -> int:
    return max(came.arrived_unix_ms, state.arrived_unix_ms or 0)


def _cause(
    kind: Literal["sample", "event"], record: sample.Sample | sample.Event, came: Arrival
) -> verdict.Cause:
    return verdict.Cause(
        kind=kind, ts_unix_ms=record.ts_unix_ms, epoch=came.envelope.epoch, seq=record.seq
    )
