"""What may be acknowledged, and what may be confirmed.

| event | answer |
|---|---|
| a message arrives | a ticket, if there is room |
| Kafka holds the record of a ticket | the packets that may be acknowledged now |
| a new connection | tickets live on, their packets are forgotten: the broker sends those again |
| the time for confirmations has come | for each node the seqs that Kafka holds |

MQTT wants its acknowledgements in the order of arrival while Kafka answers in any
order, so a packet is acknowledged when all that came before it on its connection are
in Kafka too. A packet of an earlier connection is never acknowledged on a later one,
because its number means another packet there; but what Kafka holds is confirmed to the
node whatever became of the connection.

Everything here is bounded by what may be unanswered: `capacity` messages that the
broker wants acknowledged and `unpromised_max` that it does not (QoS 0).
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from bridge.core.route import Claim

UNPROMISED_MAX: Final = 100

Ranges = tuple[tuple[int, int], ...]


class _Entry(Struct):
    packet: int | None
    arrived_ms: int
    is_held: bool = False


class Ledger:
    """The messages between MQTT and Kafka; changed only by the events above."""

    def __init__(self, capacity: int, unpromised_max: int = UNPROMISED_MAX) -> None:
        self._capacity = capacity
        self._unpromised_max = unpromised_max
        self._unpromised = 0
        self._next_ticket = 1
        self._open: dict[int, _Entry] = {}
        self._order: deque[_Entry] = deque()
        self._claims: dict[tuple[str, str, str], list[tuple[int, int]]] = {}

    @property
    def open_count(self) -> int:
        """Messages that Kafka does not hold yet, whatever their connection."""
        return len(self._open)

    @property
    def unacknowledged_count(self) -> int:
        """Packets of this connection that are not acknowledged."""
        return len(self._order)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for a message that wants to be acknowledged."""
        kept = max(len(self._order), len(self._open) - self._unpromised)
        return kept >= self._capacity

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest message that Kafka does not hold arrived."""
        return next(iter(self._open.values())).arrived_ms if self._open else None

    def connected(self) -> None:
        """A new connection: packets of the last one cannot be acknowledged any more."""
        self._order.clear()

    def arrived(self, packet: int | None, now_ms: int) -> int | None:
        """A ticket for a message, or None when there is no room; `packet` is None for QoS 0."""
        if packet is None:
            if self._unpromised >= self._unpromised_max:
                return None
            self._unpromised += 1
        elif self.is_full:
            return None
        entry = _Entry(packet, now_ms)
        ticket = self._next_ticket
        self._next_ticket += 1
        self._open[ticket] = entry
        if packet is not None:
            self._order.append(entry)
        return ticket

    def held(self, ticket: int, claim: Claim | None) -> tuple[int, ...]:
        """Kafka holds the record: packets of this connection to acknowledge, in order."""
        entry = self._open.pop(ticket, None)
        if entry is None:
            return ()
        if claim is not None:
            key = (claim.cluster, claim.node, claim.epoch)
            self._claims.setdefault(key, []).extend(claim.ranges)
        if entry.packet is None:
            self._unpromised -= 1
            return ()
        entry.is_held = True
        order = self._order
        ready: list[int] = []
        while order and order[0].is_held:
            packet = order.popleft().packet
            assert packet is not None
            ready.append(packet)
        return tuple(ready)

    def take_claims(self) -> tuple[Claim, ...]:
        """What to confirm now, one claim for each node and epoch."""
        taken = tuple(Claim(*key, merged(ranges)) for key, ranges in self._claims.items())
        self._claims.clear()
        return taken

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Confirmations that did not get out: they are taken again."""
        for claim in claims:
            key = (claim.cluster, claim.node, claim.epoch)
            self._claims.setdefault(key, []).extend(claim.ranges)


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same seqs as ascending, disjoint ranges that do not touch."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return tuple(out)


def split(claim: Claim, ranges_max: int) -> tuple[Claim, ...]:
    """The claim in parts of at most `ranges_max` ranges, so that a message stays small."""
    return tuple(
        Claim(claim.cluster, claim.node, claim.epoch, claim.ranges[at : at + ranges_max])
        for at in range(0, len(claim.ranges), ranges_max)
    )
