"""What has arrived of each epoch, as intervals of seqs: duplicates are known, gaps are exact.

The last interval grows with each record in order, which costs nothing; anything else is
found by bisection. Both the epochs of a node and the intervals of an epoch are bounded;
when the bound bites, the oldest gap is given up, and the caller is told.
"""

import bisect
from typing import Final

import msgspec

from cloud_processor.core.model import Intake, Interval
from wire import verdict

INTERVALS_MAX: Final = 256
EPOCHS_MAX: Final = 4


def holds(intervals: tuple[Interval, ...], seq: int) -> bool:
    """Whether `seq` lies in one of the intervals."""
    return seq <= _around(intervals, seq)[1]


def insert(intervals: tuple[Interval, ...], first: int, last: int) -> tuple[Interval, ...]:
    """The intervals with `first` to `last` added; touching ones become one."""
    if intervals and first == intervals[-1][1] + 1:
        return (*intervals[:-1], (intervals[-1][0], last))
    begin = bisect.bisect_left(intervals, first - 1, key=_last)
    end = bisect.bisect_right(intervals, last + 1, key=_first)
    if begin < end:
        first = min(first, intervals[begin][0])
        last = max(last, intervals[end - 1][1])
    return (*intervals[:begin], (first, last), *intervals[end:])


def size(intervals: tuple[Interval, ...]) -> int:
    """How many seqs the intervals hold."""
    return sum(last - first + 1 for first, last in intervals)


def bounded(intervals: tuple[Interval, ...]) -> tuple[tuple[Interval, ...], Interval | None]:
    """At most `INTERVALS_MAX` of them; the gap that was given up for it, if any."""
    if len(intervals) <= INTERVALS_MAX:
        return intervals, None
    (first, gap), (after, last), *rest = intervals
    return ((first, last), *rest), (gap + 1, after - 1)


def find(intakes: tuple[Intake, ...], epoch: str) -> Intake:
    """The intake of an epoch, empty when it is new."""
    for intake in intakes:
        if intake.epoch == epoch:
            return intake
    return Intake(epoch)


def replace(intakes: tuple[Intake, ...], intake: Intake) -> tuple[Intake, ...]:
    """The intakes with this one as the newest word on its epoch; old epochs drop out."""
    if intakes and intakes[-1].epoch == intake.epoch:
        return (*intakes[:-1], intake)
    if any(i.epoch == intake.epoch for i in intakes):
        return tuple(intake if i.epoch == intake.epoch else i for i in intakes)
    return (*intakes, intake)[-EPOCHS_MAX:]


def covers(intake: Intake, first: int, last: int) -> bool:
    """Whether nothing from `first` to `last` can still come: held, or explained as lost."""
    return all(b <= _around(intake.explained, a)[1] for a, b in _cut(intake.held, first, last))


def explain(intake: Intake, first: int, last: int) -> Intake:
    """Seqs that the agent itself has given up, as its loss record says."""
    explained = insert(intake.explained, first, last)[-INTERVALS_MAX:]
    return msgspec.structs.replace(intake, explained=explained)


def summary(intake: Intake) -> verdict.Intake:
    """For the verdict. Seqs below the lowest one seen were before our time, not missing."""
    received = size(intake.held)
    if not intake.held:
        return verdict.Intake(
            epoch=intake.epoch, received=0, missing=0, duplicates=0, highest_seq=0
        )
    lowest, highest = intake.held[0][0], intake.held[-1][1]
    explained = sum(
        size(_cut(intake.held, max(first, lowest), min(last, highest)))
        for first, last in intake.explained
        if last >= lowest and first <= highest
    )
    return verdict.Intake(
        epoch=intake.epoch,
        received=received,
        missing=highest - lowest + 1 - received - explained,
        duplicates=intake.duplicates,
        highest_seq=highest,
        explained=explained,
    )


def _around(intervals: tuple[Interval, ...], seq: int) -> Interval:
    """The last interval that begins at or before `seq`; an impossible one without any."""
    at = bisect.bisect_right(intervals, seq, key=_first) - 1
    return intervals[at] if at >= 0 else (0, -1)


def _cut(held: tuple[Interval, ...], first: int, last: int) -> tuple[Interval, ...]:
    """What of `first` to `last` is not held."""
    free: list[Interval] = []
    for a, b in held[bisect.bisect_left(held, first, key=_last) :]:
        if a > last:
            break
        if a > first:
            free.append((first, a - 1))
        first = b + 1
    if first <= last:
        free.append((first, last))
    return tuple(free)


def _first(interval: Interval) -> int:
    return interval[0]


def _last(interval: Interval) -> int:
    return interval[1]
