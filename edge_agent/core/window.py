"""Filling the window: what goes out next while the broker has room for it.

Order: status, events, live, backlog. A message takes as many rows as fit one packet,
weighed whole. A row that fits no packet is set aside and never stands before others.
"""

from msgspec.structs import replace

from edge_agent.core.parcels import (
    HELD_MAX,
    ROW_EXTRA_BYTES,
    Action,
    Drop,
    Held,
    Lane,
    Message,
    Pending,
    Publish,
    ReadBacklog,
    Row,
    State,
    Sweep,
)


def pump(state: State, now_ms: int, actions: list[Action]) -> State:
    """Fill the window, best first."""
    while state.link is not None:
        before = state
        if has_room(state, "status"):
            state = _send_best(state, now_ms, actions)
        if state is before:
            break
    sweep = state.sweep
    if state.link is None or sweep is None or sweep.rows or sweep.reading:
        return state
    if sweep.exhausted or sweep.next_seq > sweep.end_seq:
        return end_sweep(state, now_ms)
    actions.append(ReadBacklog(sweep.id, sweep.next_seq, sweep.end_seq, _room_bytes(state)))
    return replace(state, sweep=replace(sweep, reading=True))


def _send_best(state: State, now_ms: int, actions: list[Action]) -> State:
    if state.status is not None:
        message = Message(state.token + 1, "status", (), now_ms)
        return _publish(replace(state, status=None), message, (state.status,), actions)
    repeat_ms = now_ms - state.limits.confirm_timeout_ms
    due = [p.row for p in state.events if p.sent_ms is None or p.sent_ms <= repeat_ms]
    if due:
        return _send_events(state, due, now_ms, actions)
    if state.fresh:
        taken, rest, state = _take(state, state.fresh, actions)
        return _publish_rows(replace(state, fresh=rest), "live", taken, now_ms, actions)
    sweep = state.sweep
    if (
        sweep is None
        or not sweep.rows
        or now_ms < sweep.not_before_ms
        or not has_room(state, "backlog")
        or len(state.unconfirmed) >= state.limits.backlog_unconfirmed_max
    ):
        return state
    taken, rest, state = _take(state, sweep.rows, actions)
    pace_ms = now_ms + state.limits.backlog_interval_ms if taken else sweep.not_before_ms
    state = replace(state, sweep=replace(sweep, rows=rest, not_before_ms=pace_ms))
    return _publish_rows(state, "backlog", taken, now_ms, actions)


def _send_events(state: State, due: list[Row], now_ms: int, actions: list[Action]) -> State:
    taken, _, state = _take(state, tuple(due), actions)
    sent = {row.seq for row in taken}
    gone = {action.seq for action in actions if isinstance(action, Drop | Held)}
    events = tuple(
        Pending(p.row, now_ms) if p.row.seq in sent else p
        for p in state.events
        if p.row.seq not in gone
    )
    return _publish_rows(replace(state, events=events), "events", taken, now_ms, actions)


def _take(
    state: State, rows: tuple[Row, ...], actions: list[Action]
) -> tuple[tuple[Row, ...], tuple[Row, ...], State]:
    """The first rows that fit one packet, the rest, and the state with what cannot be sent."""
    left_bytes = _room_bytes(state)
    taken: list[Row] = []
    for index, row in enumerate(rows):
        size_bytes = len(row.body) + ROW_EXTRA_BYTES
        if size_bytes > _room_bytes(state):
            state = _set_aside(state, row, size_bytes, actions)
        elif size_bytes > left_bytes:
            return tuple(taken), rows[index:], state
        else:
            left_bytes -= size_bytes
            taken.append(row)
    return tuple(taken), (), state


def _set_aside(state: State, row: Row, size_bytes: int, actions: list[Action]) -> State:
    if size_bytes > state.limits.message_bytes_max - state.limits.overhead_bytes:
        actions.append(Drop(row.seq))
        return state
    if row.seq in state.held:
        return state
    actions.append(Held(row.seq))
    return replace(state, held=(*state.held, row.seq)[-HELD_MAX:])


def _publish_rows(
    state: State, lane: Lane, rows: tuple[Row, ...], now_ms: int, actions: list[Action]
) -> State:
    if not rows:
        return state
    message = Message(state.token + 1, lane, tuple(row.seq for row in rows), now_ms)
    bodies = tuple(row.body for row in rows)
    unanswered = state.unanswered or lane == "backlog"
    return _publish(replace(state, unanswered=unanswered), message, bodies, actions)


def _publish(
    state: State, message: Message, bodies: tuple[bytes, ...], actions: list[Action]
) -> State:
    actions.append(Publish(message.token, message.lane, message.seqs, bodies))
    backlog = message.lane == "backlog"
    return replace(
        state,
        token=message.token,
        in_flight=(*state.in_flight, message),
        unconfirmed=(*state.unconfirmed, message) if backlog else state.unconfirmed,
    )


def new_sweep(state: State, end_seq: int, not_before_ms: int) -> State:
    sweep_id = state.sweep_id + 1
    return replace(
        state,
        sweep_id=sweep_id,
        sweep=Sweep(sweep_id, 1, end_seq, not_before_ms),
        unconfirmed=(),
    )


def end_sweep(state: State, now_ms: int) -> State:
    return replace(state, sweep=None, mark_seq=state.highest_seq, mark_ms=now_ms)


def has_room(state: State, lane: Lane) -> bool:
    """Whether the window takes one more; the backlog leaves two slots to fresh data."""
    assert state.link is not None
    allowed = state.link.in_flight_max
    if lane == "backlog" and allowed > 2:
        allowed -= 2
    return len(state.in_flight) < allowed


def _room_bytes(state: State) -> int:
    assert state.link is not None
    return max(1, state.link.packet_bytes_max - state.limits.overhead_bytes)


def is_stuck(state: State) -> bool:
    """Whether the sweep waits for confirmations."""
    return (
        state.sweep is not None and len(state.unconfirmed) >= state.limits.backlog_unconfirmed_max
    )
