"""The ledger against every order in which Kafka may answer and links may break."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bridge.core import ledger
from bridge.core.route import Claim


def claim(seq: int, node: str = "n1") -> Claim:
    return Claim("c1", node, "0" * 16, ((seq, seq),))


def test_acks_in_order_of_arrival() -> None:
    """BR-76: Kafka confirms 3, 1, 2, 5, 4; acknowledgements go out 1 to 5, each after its own."""
    book = ledger.Ledger(10)
    tickets = {packet: book.arrived(packet, 0) for packet in range(1, 6)}

    acked = [book.held(tickets[packet], None) for packet in (3, 1, 2, 5, 4)]

    assert acked == [(), (1,), (2, 3), (), (4, 5)]


def test_old_connection_is_never_acknowledged() -> None:
    """BR-76: no acknowledgement for an old connection's packet goes out on a new one."""
    book = ledger.Ledger(10)
    old = book.arrived(1, 0)
    assert old is not None
    book.connected()
    new = book.arrived(1, 0)
    assert new is not None

    assert book.held(old, claim(1)) == ()
    assert book.held(new, claim(1)) == (1,)
    assert book.take_claims() == (Claim("c1", "n1", "0" * 16, ((1, 1),)),)


def test_counts() -> None:
    """What is open and what is not acknowledged are counted apart."""
    book = ledger.Ledger(3)
    first, second = book.arrived(1, 0), book.arrived(2, 0)
    assert first is not None
    assert second is not None

    book.held(second, None)

    assert (book.open_count, book.unacknowledged_count) == (1, 2)
    assert book.held(first, None) == (1, 2)
    assert book.oldest_ms is None


def test_full_and_room_again() -> None:
    """The bound holds over a reconnect as long as Kafka does not hold the old messages."""
    book = ledger.Ledger(2)
    first, second = book.arrived(1, 5), book.arrived(2, 6)
    assert first is not None
    assert second is not None
    book.connected()

    assert book.is_full
    assert book.arrived(1, 7) is None
    assert book.oldest_ms == 5

    book.held(first, None)

    assert not book.is_full
    assert book.arrived(1, 8) is not None


def test_unpromised_messages_have_their_own_bound() -> None:
    """QoS 0 messages take no room from those that must be acknowledged."""
    book = ledger.Ledger(1, unpromised_max=1)
    loose = book.arrived(None, 0)
    assert loose is not None

    assert book.arrived(None, 0) is None
    assert book.arrived(1, 0) is not None
    assert book.held(loose, None) == ()
    assert book.arrived(None, 0) is not None


def test_unknown_ticket_changes_nothing() -> None:
    """A second answer for one ticket is not counted twice."""
    book = ledger.Ledger(3)
    ticket = book.arrived(1, 0)
    assert ticket is not None
    book.held(ticket, claim(1))
    book.take_claims()

    assert book.held(ticket, claim(1)) == ()
    assert not book.take_claims()


def test_confirmations_given_back_are_taken_again() -> None:
    """A confirmation that did not get out goes out with the next ones, merged."""
    book = ledger.Ledger(3)
    ticket = book.arrived(1, 0)
    assert ticket is not None
    book.held(ticket, claim(2))
    book.give_back([claim(1), claim(4)])

    assert book.take_claims() == (Claim("c1", "n1", "0" * 16, ((1, 2), (4, 4))),)
    assert book.take_claims() == ()


steps = st.lists(
    st.one_of(
        st.just(("arrive",)),
        st.just(("arrive-qos0",)),
        st.tuples(st.just("held"), st.integers(0, 50)),
        st.just(("connect",)),
        st.just(("confirm",)),
    ),
    max_size=120,
)


@given(steps=steps, capacity=st.integers(1, 8))
def test_against_a_model(steps: list[tuple], capacity: int) -> None:  # noqa: C901 - a model
    """BR-76, BR-77, BR-79: acks are a prefix of arrivals, only after Kafka; nothing is lost;
    the number in hand never exceeds its bound; what is confirmed is what Kafka holds."""
    book = ledger.Ledger(capacity, unpromised_max=2)
    arrivals: list[int] = []  # packets of this connection
    acked: list[int] = []
    held_packets: set[int] = set()
    pending: dict[int, tuple[int, int | None, int]] = {}  # ticket: connection, packet, seq
    connection, packet, seq = 0, 0, 0
    held_seqs: set[int] = set()
    confirmed: set[int] = set()

    for step in steps:
        match step:
            case ("arrive",):
                ticket = book.arrived(packet + 1, seq)
                if ticket is not None:
                    packet, seq = packet + 1, seq + 1
                    arrivals.append(packet)
                    pending[ticket] = (connection, packet, seq)
            case ("arrive-qos0",):
                ticket = book.arrived(None, seq)
                if ticket is not None:
                    seq += 1
                    pending[ticket] = (connection, None, seq)
            case ("held", index) if pending:
                ticket = list(pending)[index % len(pending)]
                origin, number, held_seq = pending.pop(ticket)
                if origin == connection and number is not None:
                    held_packets.add(number)
                held_seqs.add(held_seq)
                acked += book.held(ticket, claim(held_seq))
            case ("connect",):
                book.connected()
                connection, packet = connection + 1, 0
                arrivals, acked, held_packets = [], [], set()
            case ("confirm",):
                for taken in book.take_claims():
                    confirmed |= {s for a, b in taken.ranges for s in range(a, b + 1)}
        assert arrivals[: len(acked)] == acked
        assert set(acked) <= held_packets
        assert len(pending) == book.open_count <= capacity + 2
        blocked = arrivals[len(acked) : len(acked) + 1]
        assert not set(blocked) & held_packets
    for taken in book.take_claims():
        confirmed |= {s for a, b in taken.ranges for s in range(a, b + 1)}
    assert confirmed == held_seqs


pairs = st.tuples(st.integers(1, 40), st.integers(0, 5)).map(lambda p: (p[0], p[0] + p[1]))


@given(ranges=st.lists(pairs, max_size=20), ranges_max=st.integers(1, 5))
def test_merged_says_the_same_seqs(ranges: list[tuple[int, int]], ranges_max: int) -> None:
    """Merging and splitting change how seqs are said, never which; parts ascend."""
    whole = Claim("c1", "n1", "0" * 16, ledger.merged(ranges))

    parts = ledger.split(whole, ranges_max)

    said = [r for part in parts for r in part.ranges]
    assert tuple(said) == whole.ranges
    assert all(len(part.ranges) <= ranges_max for part in parts)
    assert all(b + 1 < c for (_, b), (c, _) in itertools.pairwise(said))
    assert {s for a, b in ranges for s in range(a, b + 1)} == {
        s for a, b in said for s in range(a, b + 1)
    }
