"""What to send next, and what may be forgotten: the heart of the delivery.

The spool holds every record until the bridge confirms that Kafka has it. This machine
decides what of it is said when, and never trusts less than a confirmation:

    event         changes                                  may lead to
    ------------  ---------------------------------------  ------------------------------
    Appended      rows are new in the spool                Publish (events, live)
    LinkUp        a fresh session; a sweep begins          Publish (status), ReadBacklog
    LinkDown      nothing is in flight any more            -
    Acked         a slot is free; a refusal is only noted  Publish, Refused
    Confirmed     rows are in Kafka                        Delete
    BacklogRead   rows for the sweep                       Publish (backlog), ReadBacklog
    StatusChanged the retained birth is another            Publish (status)
    Woken         time has passed                          Publish, Reconnect

Order: status, events, live, backlog. Live rows are sent once, fresh, on their lane.
Whatever is not confirmed after that is the business of the sweep: it walks through the
spool from the oldest row at a bounded rate, on the backlog lane, and begins again
`confirm_timeout_ms` after its end as long as rows are left. Without any answer the
wait doubles a few times, so that a broker whose bridge is away is not filled with
repeats. The sweep also stops while too many of its messages are unconfirmed.

Events keep their own lane until they are confirmed or too old to be news; after that
the sweep carries them as history.
"""

from typing import Final

from msgspec.structs import replace

from edge_agent.core import window
from edge_agent.core.parcels import (
    Acked,
    Action,
    Appended,
    BacklogRead,
    Confirmed,
    Delete,
    Event,
    Link,
    LinkDown,
    LinkUp,
    Message,
    Pending,
    Range,
    Reconnect,
    Refused,
    Row,
    State,
    StatusChanged,
    Step,
    covers,
)

REFUSED_FROM: Final = 0x80


def step(state: State, event: Event, now_ms: int) -> Step:
    """One event in, the next state and what to do out."""
    actions: list[Action] = []
    match event:
        case Appended(rows):
            state = _appended(state, rows)
        case LinkUp():
            state = _link_up(state, event, now_ms)
        case LinkDown():
            state = _link_down(state)
        case Acked(token, reason_code):
            state = _acked(state, token, reason_code, now_ms, actions)
        case Confirmed(ranges):
            state = _confirmed(state, ranges, actions)
        case BacklogRead(sweep_id, rows):
            state = _backlog_read(state, sweep_id, rows)
        case StatusChanged(body):
            state = replace(state, status=body) if state.link else state
        # Woken changes nothing by itself: time has passed, which is looked at below
    if state.link is not None:
        state = window.pump(_on_time(state, now_ms, actions), now_ms, actions)
    return state, tuple(actions)


def wake_ms(state: State) -> int | None:
    """When something is due if nothing happens before; None when nothing will be."""
    if state.link is None:
        return None
    times = [message.sent_ms + state.limits.ack_timeout_ms for message in state.in_flight[:1]]
    times += [
        pending.sent_ms + state.limits.confirm_timeout_ms
        for pending in state.events
        if pending.sent_ms is not None and window.has_room(state, "events")
    ]
    if state.sweep is None:
        times.append(state.mark_ms + _patience_ms(state))
    elif window.is_stuck(state):
        times.append(state.unconfirmed[0].sent_ms + _patience_ms(state))
    elif state.sweep.rows and window.has_room(state, "backlog"):
        times.append(state.sweep.not_before_ms)
    return min(times, default=None)


def _appended(state: State, rows: tuple[Row, ...]) -> State:
    events = [*state.events, *(Pending(row) for row in rows if row.lane == "events")]
    fresh = list(state.fresh)
    if state.link is not None:
        fresh += [row for row in rows if row.lane != "events"]
        size_bytes = sum(len(row.body) for row in fresh)
        while fresh and size_bytes > state.limits.fresh_bytes_max:
            size_bytes -= len(fresh.pop(0).body)
    return replace(
        state,
        highest_seq=max([state.highest_seq, *(row.seq for row in rows)]),
        events=tuple(events[-state.limits.events_max :]),
        fresh=tuple(fresh),
    )


def _link_up(state: State, event: LinkUp, now_ms: int) -> State:
    state = _link_down(state)
    link = Link(
        max(1, min(event.in_flight_max, state.limits.in_flight_max)),
        min(event.packet_bytes_max, state.limits.message_bytes_max),
    )
    state = replace(state, link=link, status=event.status, doublings=0, unanswered=False)
    return window.new_sweep(state, state.highest_seq, now_ms + event.backlog_delay_ms)


def _link_down(state: State) -> State:
    return replace(
        state,
        link=None,
        status=None,
        events=tuple(Pending(pending.row) for pending in state.events),
        fresh=(),
        in_flight=(),
        sweep=None,
        unconfirmed=(),
        held=(),
    )


def _acked(state: State, token: int, reason_code: int, now_ms: int, actions: list[Action]) -> State:
    acked = next((message for message in state.in_flight if message.token == token), None)
    if acked is None:
        return state
    state = replace(state, in_flight=_without(state.in_flight, token))
    if reason_code < REFUSED_FROM:
        return state
    actions.append(Refused(acked.lane, reason_code))
    if acked.lane == "backlog":
        state = window.end_sweep(
            replace(state, unconfirmed=_without(state.unconfirmed, token)), now_ms
        )
        return _doubled(state)
    return state


def _confirmed(state: State, ranges: tuple[Range, ...], actions: list[Action]) -> State:
    known = tuple(
        (first, min(last, state.highest_seq))
        for first, last in ranges
        if first <= state.highest_seq
    )
    if not known:
        return state
    actions.append(Delete(known))
    sweep = state.sweep
    if sweep is not None and sweep.rows:
        sweep = replace(sweep, rows=tuple(row for row in sweep.rows if not covers(known, row.seq)))
    return replace(
        state,
        events=tuple(p for p in state.events if not covers(known, p.row.seq)),
        fresh=tuple(row for row in state.fresh if not covers(known, row.seq)),
        sweep=sweep,
        unconfirmed=tuple(
            message
            for message in state.unconfirmed
            if not all(covers(known, seq) for seq in message.seqs)
        ),
        unanswered=False,
        doublings=0,
    )


def _backlog_read(state: State, sweep_id: int, rows: tuple[Row, ...]) -> State:
    sweep = state.sweep
    if sweep is None or sweep.id != sweep_id:
        return state
    news = {pending.row.seq for pending in state.events}
    return replace(
        state,
        sweep=replace(
            sweep,
            reading=False,
            exhausted=not rows,
            next_seq=rows[-1].seq + 1 if rows else sweep.next_seq,
            rows=tuple(row for row in rows if row.seq not in news),
        ),
    )


def _on_time(state: State, now_ms: int, actions: list[Action]) -> State:
    """What the clock alone decides."""
    limits = state.limits
    if state.in_flight and now_ms - state.in_flight[0].sent_ms >= limits.ack_timeout_ms:
        actions.append(Reconnect("no answer to a publish"))
        return _link_down(state)
    old_ms = now_ms - limits.events_age_ms_max
    if any(pending.row.at_ms < old_ms for pending in state.events):
        state = replace(state, events=tuple(p for p in state.events if p.row.at_ms >= old_ms))
    patience_ms = _patience_ms(state)
    if state.sweep is None and now_ms - state.mark_ms >= patience_ms:
        state = _doubled(state) if state.unanswered else state
        state = window.new_sweep(state, state.mark_seq, now_ms)
    elif window.is_stuck(state) and now_ms - state.unconfirmed[0].sent_ms >= patience_ms:
        state = window.new_sweep(_doubled(state), state.highest_seq, now_ms)
    return state


def _doubled(state: State) -> State:
    return replace(state, doublings=min(state.doublings + 1, state.limits.doublings_max))


def _patience_ms(state: State) -> int:
    return state.limits.confirm_timeout_ms << state.doublings


def _without(messages: tuple[Message, ...], token: int) -> tuple[Message, ...]:
    return tuple(message for message in messages if message.token != token)
