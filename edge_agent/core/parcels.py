"""The words of the outbox: its state, what happens to it, what it decides.

All are frozen values, so that a state can be kept, compared and printed.
"""

from typing import Final, Literal

from msgspec import Struct

from wire.sample import Loss

Range = tuple[int, int]
Lane = Literal["live", "backlog", "events", "status"]

ROW_EXTRA_BYTES: Final = 40  # a comma, and the row's own range in the message id
HELD_MAX: Final = 256


class Counts(Struct, frozen=True, kw_only=True):
    """The counters of the epoch, in records, and the disk space in use."""

    sampled: int
    delivered: int
    spooled: int
    dropped: int
    size_bytes: int


class Row(Struct, frozen=True):
    """One row of the spool; `at_ms` is when it was written, by the machine's clock."""

    seq: int
    lane: Lane
    body: bytes
    at_ms: int


class Committed(Struct, frozen=True, kw_only=True):
    """What a commit did: the rows it wrote, how many were deleted, what was given up."""

    counts: Counts
    rows: tuple[Row, ...] = ()
    delivered: int = 0
    losses: tuple[Loss, ...] = ()


class Limits(Struct, frozen=True, kw_only=True):
    """The bounds. `overhead_bytes` is what a packet weighs without its rows."""

    in_flight_max: int = 20
    message_bytes_max: int = 131_072
    overhead_bytes: int = 1024
    confirm_timeout_ms: int = 30_000
    ack_timeout_ms: int = 20_000
    backlog_interval_ms: int = 50
    backlog_unconfirmed_max: int = 64
    fresh_bytes_max: int = 1_048_576
    events_max: int = 64
    events_age_ms_max: int = 300_000
    doublings_max: int = 3


class Pending(Struct, frozen=True):
    """An event on its way: not yet sent when `sent_ms` is None."""

    row: Row
    sent_ms: int | None = None


class Message(Struct, frozen=True):
    """A message that was sent."""

    token: int
    lane: Lane
    seqs: tuple[int, ...]
    sent_ms: int


class Link(Struct, frozen=True):
    """What this session allows."""

    in_flight_max: int
    packet_bytes_max: int


class Sweep(Struct, frozen=True):
    """A walk through the spool up to `end_seq`; `rows` were read and not yet sent."""

    id: int
    next_seq: int
    end_seq: int
    not_before_ms: int
    reading: bool = False
    exhausted: bool = False
    rows: tuple[Row, ...] = ()


class State(Struct, frozen=True, kw_only=True):
    """`mark_seq`, `mark_ms`: rows up to the one were last sent before the other.

    `unanswered`: backlog was sent and nothing was confirmed since.
    """

    limits: Limits = Limits()
    link: Link | None = None
    highest_seq: int = 0
    token: int = 0
    status: bytes | None = None
    events: tuple[Pending, ...] = ()
    fresh: tuple[Row, ...] = ()
    in_flight: tuple[Message, ...] = ()
    sweep: Sweep | None = None
    sweep_id: int = 0
    mark_seq: int = 0
    mark_ms: int = 0
    unconfirmed: tuple[Message, ...] = ()
    unanswered: bool = False
    doublings: int = 0
    held: tuple[int, ...] = ()


class Appended(Struct, frozen=True):
    """Rows that are on disk now."""

    rows: tuple[Row, ...]


class LinkUp(Struct, frozen=True, kw_only=True):
    """A session is open and listens for confirmations."""

    in_flight_max: int
    packet_bytes_max: int
    status: bytes
    backlog_delay_ms: int


class LinkDown(Struct, frozen=True):
    """The session is gone, and with it everything that was in flight."""


class Acked(Struct, frozen=True):
    """The broker answered a message: below 0x80 it took it."""

    token: int
    reason_code: int


class Confirmed(Struct, frozen=True):
    """The bridge says that Kafka has these rows."""

    ranges: tuple[Range, ...]


class BacklogRead(Struct, frozen=True):
    """The answer to `ReadBacklog`; no rows means that there are no more."""

    sweep_id: int
    rows: tuple[Row, ...]


class StatusChanged(Struct, frozen=True):
    """The birth record says something new."""

    body: bytes


class Woken(Struct, frozen=True):
    """It is time; see `wake_ms`."""


Event = Appended | LinkUp | LinkDown | Acked | Confirmed | BacklogRead | StatusChanged | Woken


class Publish(Struct, frozen=True):
    """Send these records now, as one message."""

    token: int
    lane: Lane
    seqs: tuple[int, ...]
    bodies: tuple[bytes, ...]


class ReadBacklog(Struct, frozen=True):
    """Read rows of the spool from one seq to another, as many as fit in `bytes_max`."""

    sweep_id: int
    from_seq: int
    to_seq: int
    bytes_max: int


class Delete(Struct, frozen=True):
    """These rows are in Kafka."""

    ranges: tuple[Range, ...]


class Drop(Struct, frozen=True):
    """A row that can never be sent, by our own limit: give it up and say so."""

    seq: int


class Held(Struct, frozen=True):
    """A row larger than what this broker takes; it stays until a link takes it."""

    seq: int


class Refused(Struct, frozen=True):
    """The broker did not take a message."""

    lane: Lane
    reason_code: int


class Reconnect(Struct, frozen=True):
    """The session is of no use: open another."""

    reason: str


Action = Publish | ReadBacklog | Delete | Drop | Held | Refused | Reconnect
Step = tuple[State, tuple[Action, ...]]


def covers(ranges: tuple[Range, ...], seq: int) -> bool:
    """Whether one of the ranges holds `seq`."""
    return any(first <= seq <= last for first, last in ranges)
