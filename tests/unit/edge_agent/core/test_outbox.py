"""The outbox against a model world: a spool, a broker and a bridge that may all fail."""

from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent.core import outbox, parcels

LIMITS = parcels.Limits(
    in_flight_max=4,
    message_bytes_max=2000,
    overhead_bytes=300,
    confirm_timeout_ms=1000,
    ack_timeout_ms=800,
    backlog_interval_ms=50,
    backlog_unconfirmed_max=3,
    fresh_bytes_max=4000,
    events_max=4,
    events_age_ms_max=5000,
)
BIG_PACKET = 10_000


class World:
    """A spool as a dict, a broker as a list, a bridge that remembers; time is a number."""

    def __init__(self, limits: parcels.Limits = LIMITS) -> None:
        self.state = parcels.State(limits=limits)
        self.now_ms = 1000
        self.rows: dict[int, parcels.Row] = {}
        self.at_broker: list[parcels.Publish] = []
        self.sent: list[parcels.Publish] = []
        self.in_kafka: set[int] = set()
        self.deleted: set[int] = set()
        self.dropped: set[int] = set()
        self.held: list[int] = []
        self.refused: list[parcels.Refused] = []
        self.reads: list[parcels.ReadBacklog] = []
        self.window = 0
        self.packet_bytes_max = 0
        self.reconnects = 0

    def step(self, event: parcels.Event) -> None:
        self.state, actions = outbox.step(self.state, event, self.now_ms)
        for action in actions:
            self.perform(action)
        assert len(self.state.in_flight) <= max(self.window, 0)

    def perform(self, action: parcels.Action) -> None:
        match action:
            case parcels.Publish():
                assert self.state.link is not None or self.reconnects
                size = LIMITS.overhead_bytes + sum(
                    len(b) + parcels.ROW_EXTRA_BYTES for b in action.bodies if action.seqs
                )
                assert size <= self.packet_bytes_max
                self.sent.append(action)
                self.at_broker.append(action)
            case parcels.ReadBacklog():
                self.reads.append(action)
            case parcels.Delete(ranges):
                gone = {s for s in self.rows if parcels.covers(ranges, s)}
                assert gone <= self.in_kafka
                self.deleted |= gone
                for seq in gone:
                    del self.rows[seq]
            case parcels.Drop(seq):
                self.dropped.add(seq)
                self.rows.pop(seq, None)
            case parcels.Held(seq):
                self.held.append(seq)
            case parcels.Refused():
                self.refused.append(action)
            case parcels.Reconnect():
                self.reconnects += 1
                self.down()

    def append(self, lane: str = "live", size: int = 100) -> int:
        seq = self.state.highest_seq + 1
        row = parcels.Row(seq, lane, b"x" * size, self.now_ms)
        self.rows[seq] = row
        self.step(parcels.Appended((row,)))
        return seq

    def up(self, window: int = 4, packet: int = 2000) -> None:
        self.window = min(window, self.state.limits.in_flight_max)
        self.packet_bytes_max = min(packet, self.state.limits.message_bytes_max)
        self.step(
            parcels.LinkUp(
                in_flight_max=window, packet_bytes_max=packet, status=b"{}", backlog_delay_ms=0
            )
        )

    def down(self) -> None:
        self.at_broker.clear()
        self.reads.clear()
        self.step(parcels.LinkDown())

    def read(self) -> None:
        if self.reads:
            ask = self.reads.pop(0)
            rows: list[parcels.Row] = []
            size = 0
            for seq in sorted(self.rows):
                if ask.from_seq <= seq <= ask.to_seq:
                    size += len(self.rows[seq].body)
                    if rows and size > ask.bytes_max:
                        break
                    rows.append(self.rows[seq])
            self.step(parcels.BacklogRead(ask.sweep_id, tuple(rows)))

    def answer(self, reason_code: int = 0) -> None:
        if self.at_broker:
            message = self.at_broker.pop(0)
            if reason_code < 0x80:
                self.in_kafka |= set(message.seqs)
            self.step(parcels.Acked(message.token, reason_code))

    def confirm(self) -> None:
        if self.in_kafka:
            self.step(parcels.Confirmed(tuple((s, s) for s in sorted(self.in_kafka))))

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.step(parcels.Woken())

    def settle(self, rounds: int = 60, *, confirming: bool = True) -> None:
        for _ in range(rounds):
            self.read()
            while self.at_broker:
                self.answer()
            if confirming:
                self.confirm()
            self.pass_time(60)


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(["live", "events"]), st.integers(1, 2500)),
        st.tuples(st.just("up"), st.integers(1, 6), st.integers(700, BIG_PACKET)),
        st.tuples(st.just("down")),
        st.tuples(st.just("read")),
        st.tuples(st.just("answer"), st.sampled_from([0, 0, 0, 0x10, 0x87, 0x97])),
        st.tuples(st.just("confirm")),
        st.tuples(st.just("pass_time"), st.integers(0, 1500)),
    ),
    max_size=60,
)


@given(OPERATIONS)
def test_whatever_happens_nothing_is_forgotten_before_kafka_has_it(operations):
    """In-flight is bounded, packets fit, only confirmed rows are deleted (BR-49, BR-62, BR-66);
    once the world behaves, every row that any packet can hold is delivered (BR-60, BR-63)."""
    world = World()
    for name, *arguments in operations:
        getattr(world, name)(*arguments)
    world.down()
    world.pass_time(1)
    world.up(packet=BIG_PACKET)
    world.settle(400)

    assert world.rows == {}
    assert world.deleted | world.dropped == set(range(1, world.state.highest_seq + 1))
    assert not world.deleted & world.dropped


@given(OPERATIONS)
def test_a_closed_link_sends_nothing(operations):
    """Without a link no event leads to a publish or a read."""
    world = World()
    for name, *arguments in operations:
        if name not in ("up", "read"):
            getattr(world, name)(*arguments)

    assert world.sent == []
    assert world.reads == []
    assert outbox.wake_ms(world.state) is None


@given(OPERATIONS)
@settings(max_examples=50)
def test_the_state_can_be_woken_at_the_time_it_names(operations):
    """`wake_ms` names a time at which something happens: waking then moves it on."""
    world = World()
    for name, *arguments in operations:
        getattr(world, name)(*arguments)
    for _ in range(3):
        wake = outbox.wake_ms(world.state)
        if wake is None or world.reads:
            return
        world.now_ms = max(world.now_ms, wake)
        before = (len(world.sent), world.reconnects, world.state.sweep_id)
        marks = world.state.mark_ms
        world.step(parcels.Woken())
        after = (len(world.sent), world.reconnects, world.state.sweep_id)

        assert after != before or world.state.mark_ms != marks or world.state.held or world.dropped


def lanes(world: World) -> list[str]:
    return [message.lane for message in world.sent]


def test_fresh_data_goes_before_the_backlog():
    """BR-55: after an outage the status and the live row go first, the backlog behind them."""
    world = World()
    for _ in range(10):
        world.append(size=900)
    world.up()
    world.read()
    world.append()
    world.settle()

    assert lanes(world)[0] == "status"
    assert lanes(world).index("live") <= 2
    assert world.rows == {}


def test_events_go_before_live_rows():
    """An event that waits beside a sample leaves first."""
    world = World()
    world.up(window=1)
    world.append("live")
    world.append("events")
    world.answer()
    world.answer()

    assert lanes(world) == ["status", "events", "live"]


def test_the_window_obeys_the_brokers_receive_maximum():
    """BR-62: 300 rows, Receive Maximum 2: never more than 2 in flight (the world checks)."""
    world = World()
    for _ in range(300):
        world.append(size=900)
    world.up(window=2)
    world.settle(900)

    assert world.rows == {}
    assert world.reconnects == 0


def test_the_backlog_is_paced():
    """BR-57: backlog messages keep their distance in time."""
    world = World(parcels.Limits(backlog_interval_ms=100, overhead_bytes=300, in_flight_max=4))
    for _ in range(20):
        world.append(size=100_000)
    world.up(packet=200_000)
    started = world.now_ms
    while world.rows:
        world.read()
        world.answer()
        world.confirm()
        world.pass_time(10)

    assert world.now_ms - started >= 19 * 100


def test_a_row_that_is_not_confirmed_is_sent_again_as_backlog():
    """A PUBACK is not a confirmation: between one timeout and two, the row is sent again."""
    world = World()
    world.up()
    world.append()
    world.answer()
    world.answer()
    world.pass_time(LIMITS.confirm_timeout_ms)
    world.read()
    assert lanes(world) == ["status", "live"]

    world.pass_time(LIMITS.confirm_timeout_ms)
    world.read()

    assert lanes(world) == ["status", "live", "backlog"]
    assert set(world.rows) == {1}


def test_repeats_grow_rarer_while_nobody_confirms():
    """With the bridge away the same rows are repeated at growing distances, and no faster."""
    world = World()
    world.append()
    world.up()
    world.settle(200, confirming=False)  # 12 s, timeout 1 s, doubled up to 8 s

    assert 3 <= lanes(world).count("backlog") <= 5


def test_a_confirmation_brings_patience_back():
    """After one confirmation the timeout is the configured one again."""
    world = World()
    world.append()
    world.up()
    world.settle(60, confirming=False)
    assert world.state.doublings > 0
    world.confirm()

    assert world.state.doublings == 0
    assert world.rows == {}


def test_the_sweep_waits_for_confirmations():
    """At most `backlog_unconfirmed_max` backlog messages are out and unconfirmed."""
    world = World()
    for _ in range(10):
        world.append(size=1200)
    world.up()
    for _ in range(10):
        world.read()
        while world.at_broker:
            world.answer()
        world.pass_time(60)

    assert lanes(world).count("backlog") == LIMITS.backlog_unconfirmed_max


def test_a_refused_message_is_kept_and_told():
    """BR-65: 0x87 is no delivery; the row stays, is told, and does not block the next."""
    world = World()
    world.up()
    world.answer()
    first = world.append()
    world.answer(0x87)
    second = world.append()
    world.answer()
    world.confirm()

    assert world.refused == [parcels.Refused("live", 0x87)]
    assert first in world.rows
    assert second not in world.rows


def test_no_subscriber_is_an_answer_like_any_other():
    """BR-65: 0x10 means taken; it is not refused."""
    world = World()
    world.up()
    world.answer(0x10)

    assert world.refused == []
    assert world.state.in_flight == ()


def test_a_refused_backlog_rests():
    """A refusal of the backlog ends the sweep; it is tried again later, not at once."""
    world = World()
    world.append()
    world.up()
    world.read()
    world.answer()
    world.answer(0x97)
    world.pass_time(500)

    assert lanes(world).count("backlog") == 1
    assert world.state.sweep is None


def test_a_row_too_large_for_this_broker_is_held_and_the_next_goes():
    """BR-66: CONNACK says 2000, the row has more: it stays, told once, and blocks nothing."""
    world = World(parcels.Limits(overhead_bytes=300, confirm_timeout_ms=1000))
    world.append(size=5000)
    small = world.append(size=20)
    world.up(packet=2000)
    world.settle(120)

    assert world.held == [1]
    assert set(world.rows) == {1}
    assert small in world.deleted

    world.down()
    world.up(packet=BIG_PACKET)
    world.settle()

    assert world.rows == {}


def test_a_row_too_large_for_ourselves_is_given_up():
    """A row above our own limit can never leave: it is dropped, and the spool writes a loss."""
    world = World()
    world.append(size=5000)
    world.up(packet=BIG_PACKET)
    world.settle()

    assert world.dropped == {1}


def test_a_broker_that_never_answers_costs_the_connection():
    """BR-59: no wait without an end: after `ack_timeout_ms` the link is given up, rows stay."""
    world = World()
    world.up()
    world.append()
    world.pass_time(LIMITS.ack_timeout_ms)

    assert world.reconnects == 1
    assert set(world.rows) == {1}


def test_a_full_window_at_the_drop_does_not_stop_the_next_link():
    """BR-63: window full when the link drops; afterwards all rows are delivered."""
    world = World()
    world.up(window=2)
    world.answer()
    for _ in range(5):
        world.append()
    world.down()
    for _ in range(20):
        world.append()
    world.up(window=2)
    world.settle(100)

    assert world.rows == {}


def test_old_events_are_history():
    """An event older than the limit leaves its lane and travels with the backlog."""
    world = World()
    world.append("events")
    world.now_ms += LIMITS.events_age_ms_max + 1
    world.up()
    world.settle()

    assert "events" not in lanes(world)
    assert world.rows == {}


def test_an_unconfirmed_event_is_repeated_on_its_own_lane():
    """News stays news until it is confirmed: after the timeout it goes out again as event."""
    world = World()
    world.up()
    world.append("events")
    world.answer()
    world.answer()
    world.pass_time(LIMITS.confirm_timeout_ms)

    assert lanes(world).count("events") == 2


def test_confirmations_beyond_what_was_written_are_cut():
    """A range that reaches past our own seqs deletes only what we have."""
    state = parcels.State(highest_seq=5)
    _, actions = outbox.step(state, parcels.Confirmed(((3, 2**50), (2**51, 2**52))), 0)

    assert actions == (parcels.Delete(((3, 5),)),)


def test_answers_of_another_session_are_ignored():
    """A token or a sweep that is not known changes nothing."""
    world = World()
    world.up()
    before = world.state
    world.step(parcels.Acked(999, 0))
    world.step(parcels.BacklogRead(999, ()))

    assert world.state == before


def test_a_changed_status_is_published_while_connected():
    """The birth is replaced when it says something new; without a link it waits for the next."""
    world = World()
    world.step(parcels.StatusChanged(b"{}"))
    assert world.sent == []
    world.up()
    world.answer()
    world.step(parcels.StatusChanged(b"{}"))

    assert lanes(world) == ["status", "status"]


def test_fresh_rows_that_pile_up_are_left_to_the_sweep():
    """What waits for a slot is bounded; the oldest go back to the spool and arrive later."""
    world = World()
    world.up(window=1)
    for _ in range(100):
        world.append(size=200)
    assert sum(len(row.body) for row in world.state.fresh) <= LIMITS.fresh_bytes_max
    world.settle(300)

    assert world.rows == {}


def test_the_outbox_names_when_it_wants_to_be_woken():
    """In flight: when the answer is late; paced rows: their time; stuck: when patience ends."""
    world = World()
    for _ in range(10):
        world.append(size=1200)
    world.up()
    world.read()
    started = world.now_ms
    assert outbox.wake_ms(world.state) == started + LIMITS.ack_timeout_ms
    while world.at_broker:
        world.answer()
    world.read()
    assert outbox.wake_ms(world.state) == started + LIMITS.backlog_interval_ms
    for _ in range(10):
        world.pass_time(60)
        world.read()
        while world.at_broker:
            world.answer()
    first = world.state.unconfirmed[0].sent_ms
    assert outbox.wake_ms(world.state) == first + LIMITS.confirm_timeout_ms


def test_a_stuck_sweep_begins_again():
    """Unconfirmed for too long: what is lowest in the spool is sent again, more patiently."""
    world = World()
    for _ in range(10):
        world.append(size=1200)
    world.up()
    world.settle(40, confirming=False)

    backlog = [message.seqs for message in world.sent if message.lane == "backlog"]
    assert backlog[:3] == [(1,), (2,), (3,)]
    assert backlog[3:6] == [(1,), (2,), (3,)]
    assert world.state.doublings > 0


def test_a_confirmation_of_what_was_never_written_is_nothing():
    """Ranges above our highest seq lead to no deletion at all."""
    assert outbox.step(parcels.State(), parcels.Confirmed(((1, 5),)), 0) == (parcels.State(), ())
