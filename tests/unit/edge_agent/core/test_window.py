"""Filling the window: order, room, and packets that are never too large."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import parcels, window

LIMITS = parcels.Limits(overhead_bytes=100, message_bytes_max=4000)


def rows(*sizes: int) -> tuple[parcels.Row, ...]:
    return tuple(parcels.Row(n + 1, "live", b"x" * size, 0) for n, size in enumerate(sizes))


def state(in_flight_max: int = 5, packet_bytes_max: int = 1000, **changes) -> parcels.State:
    link = parcels.Link(in_flight_max, packet_bytes_max)
    return parcels.State(limits=LIMITS, link=link, **changes)


def sent(actions: list[parcels.Action]) -> list[parcels.Publish]:
    return [action for action in actions if isinstance(action, parcels.Publish)]


@given(
    st.lists(st.integers(1, 3000), max_size=30),
    st.integers(1, 8),
    st.integers(200, 2000),
)
def test_no_packet_is_too_large_and_no_row_is_forgotten(sizes, in_flight_max, packet_bytes_max):
    """Rows go out in order, in packets that fit, no more than the window has room for; what is
    not sent is still there, or was told to be too large."""
    fresh = rows(*sizes)
    actions: list[parcels.Action] = []
    after = window.pump(state(in_flight_max, packet_bytes_max, fresh=fresh), 0, actions)
    messages = sent(actions)
    gone = [seq for message in messages for seq in message.seqs]
    told = [a.seq for a in actions if isinstance(a, parcels.Drop | parcels.Held)]

    assert len(messages) <= in_flight_max
    assert gone == sorted(gone)
    assert sorted(gone + told + [row.seq for row in after.fresh]) == [row.seq for row in fresh]
    for message in messages:
        weight = sum(len(body) + parcels.ROW_EXTRA_BYTES for body in message.bodies)
        assert weight + LIMITS.overhead_bytes <= packet_bytes_max


def test_status_then_events_then_live_then_backlog():
    """What matters most goes first; the backlog leaves two slots to fresh data."""
    event = parcels.Row(9, "events", b"e", 0)
    sweep = parcels.Sweep(1, 1, 8, 0, exhausted=True, rows=rows(10))
    actions: list[parcels.Action] = []
    window.pump(
        state(
            in_flight_max=6,
            status=b"s",
            events=(parcels.Pending(event),),
            fresh=(parcels.Row(10, "live", b"l", 0),),
            sweep=sweep,
        ),
        0,
        actions,
    )

    assert [m.lane for m in sent(actions)] == ["status", "events", "live", "backlog"]


def test_a_full_window_sends_nothing():
    """Without room nothing goes out, whatever waits."""
    full = (parcels.Message(1, "live", (1,), 0),)
    actions: list[parcels.Action] = []
    after = window.pump(state(in_flight_max=1, in_flight=full, fresh=rows(10)), 0, actions)

    assert sent(actions) == []
    assert len(after.fresh) == 1
