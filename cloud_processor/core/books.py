"""What is counted: each record of a node once, each sample in its window once.

The gap ledger (`gaps`) drops what was seen before. A sample belongs to the window of its
own time, so a replay gives the same windows. Live samples fill open windows; a window is
closed when a sample comes that is `grace_ms` past its end, or when none comes at all. A
sample for a window that is closed, and everything of the backlog, amends it at once.

A closed window is remembered only while something can still come to it. Seqs grow with
time, so that is known: when no seq is missing between its samples and those of the
windows before and after it, it is complete, and is forgotten. In a quiet life nothing is
ever stored; after a cut, the windows at the edges of the gap are, until the gap is filled.
(A clock that is set back lets windows be lived twice; then the fuller account wins.)
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from cloud_processor.core import gaps, window
from cloud_processor.core.model import Books, Intake, Interval, Span, Window
from cloud_processor.core.policy import Windows
from wire import sample, topics

ClosedBy = Literal["watermark", "clock", "amended"]


class Outcome(Struct):
    """What came of an envelope or of the clock; a draft while it is worked on."""

    books: Books
    fresh: list[sample.Record] = []
    closed: list[tuple[int, Window, ClosedBy]] = []
    stored: list[tuple[int, Window]] = []
    dropped: list[int] = []
    forgotten: list[int] = []
    given_up: list[Interval] = []
    duplicates: int = 0
    clock_set_back: bool = False


class Desk(Struct):
    """The windows while an envelope is worked on."""

    open: dict[int, Window]
    spans: dict[int, Span]
    closed: Mapping[int, Window]
    watermark_ms: int
    amended: dict[int, Window] = {}
    counted: bool = False


def needed(books: Books, envelope: sample.Envelope, size_ms: int) -> frozenset[int]:
    """Stored windows that this envelope may add to."""
    return frozenset(
        start
        for record in envelope.records
        if isinstance(record, sample.Sample)
        and (start := window.start_of(record.ts_unix_ms, size_ms)) not in books.open
        and start in books.spans
    )


def take(
    books: Books,
    envelope: sample.Envelope,
    *,
    lane: topics.Lane,
    closed: Mapping[int, Window],
    rules: Windows,
    now_ms: int,
) -> Outcome:
    """One envelope later; `closed` has the stored windows that are `needed`."""
    out = Outcome(books=books)
    intake = gaps.find(books.intakes, envelope.epoch)
    held = intake.held
    desk = Desk(dict(books.open), dict(books.spans), closed, books.watermark_ms)
    for record in envelope.records:
        if isinstance(record, sample.Status):
            out.fresh.append(record)
            continue
        ahead = not held or record.seq > held[-1][1]
        if not ahead and gaps.holds(held, record.seq):
            out.duplicates += 1
            continue
        held, given_up = gaps.bounded(gaps.insert(held, record.seq, record.seq))
        if given_up is not None:
            out.given_up.append(given_up)
        out.fresh.append(record)
        if isinstance(record, sample.Sample):
            if lane == "live":
                out.clock_set_back |= _advance(desk, record, rules, ahead=ahead)
            _count(desk, record, envelope.epoch, rules, live=lane == "live")
    intakes = books.intakes
    if held is not intake.held or out.duplicates:
        duplicates = intake.duplicates + out.duplicates
        intakes = gaps.replace(intakes, replace(intake, held=held, duplicates=duplicates))
        intakes = _explain(intakes, out.fresh)
    counted_at_ms = now_ms if desk.counted else books.counted_at_ms
    out.books = Books(intakes, desk.open, desk.spans, desk.watermark_ms, counted_at_ms)
    out.closed = [(start, desk.amended[start], "amended") for start in sorted(desk.amended)]
    due = [s for s in desk.open if out.clock_set_back or _is_past(s, desk.watermark_ms, rules)]
    return _close(out, due, "watermark", rules)


def idle(books: Books, *, rules: Windows, now_ms: int) -> Outcome:
    """No sample has come for a while: all open windows close."""
    out = Outcome(books=books)
    if not books.open or now_ms - books.counted_at_ms < rules.idle_ms:
        return out
    return _close(out, list(books.open), "clock", rules)


def _advance(desk: Desk, record: sample.Sample, rules: Windows, *, ahead: bool) -> bool:
    """Move the watermark; whether the node's clock was set back."""
    set_back = ahead and record.ts_unix_ms < desk.watermark_ms - rules.size_ms
    if set_back or record.ts_unix_ms > desk.watermark_ms:
        desk.watermark_ms = record.ts_unix_ms
    return set_back


def _count(desk: Desk, record: sample.Sample, epoch: str, rules: Windows, *, live: bool) -> None:
    start = window.start_of(record.ts_unix_ms, rules.size_ms)
    place = desk.open
    if start not in place and (
        not live or start in desk.amended or _is_past(start, desk.watermark_ms, rules)
    ):
        place = desk.amended
    base = place.get(start) or desk.closed.get(start) or Window()
    place[start] = window.add(base, record)
    desk.spans[start] = _span(desk.spans.get(start), epoch, record.seq)
    desk.counted |= place is desk.open


def _is_past(start: int, watermark_ms: int, rules: Windows) -> bool:
    return start + rules.size_ms + rules.grace_ms <= watermark_ms


def _explain(intakes: tuple[Intake, ...], records: list[sample.Record]) -> tuple[Intake, ...]:
    for record in records:
        if isinstance(record, sample.Loss) and record.seq_from <= record.seq_to:
            lost = gaps.find(intakes, record.lost_epoch)
            intakes = gaps.replace(intakes, gaps.explain(lost, record.seq_from, record.seq_to))
    return intakes


def _span(span: Span | None, epoch: str, seq: int) -> Span:
    if span is None:
        return Span(epoch, seq, seq)
    return Span(
        span.epoch if span.epoch == epoch else "",
        min(span.first, seq),
        max(span.last, seq),
        span.below,
        span.above,
        span.stored,
    )


def _close(out: Outcome, due: list[int], by: ClosedBy, rules: Windows) -> Outcome:
    """Close what is due, then remember what may still grow and forget what cannot."""
    if not due and not out.closed:
        return out
    books = out.books
    out.closed += [(start, books.open[start], by) for start in sorted(due)]
    open_ = {start: w for start, w in books.open.items() if start not in due}
    spans = _bind(books.spans, books.intakes)
    touched = {start: w for start, w, _ in out.closed}
    for start in sorted(spans.keys() - open_.keys()):
        span = spans[start]
        if _complete(span, books.intakes):
            if span.stored:
                out.dropped.append(start)
            del spans[start]
        elif start in touched:
            out.stored.append((start, touched[start]))
            spans[start] = replace(span, stored=True)
    _bound(out, spans, open_, rules)
    out.books = replace(books, open=open_, spans=spans)
    return out


def _bound(out: Outcome, spans: dict[int, Span], open_: dict[int, Window], rules: Windows) -> None:
    kept = sorted(spans.keys() - open_.keys())
    oldest_ms = out.books.watermark_ms - rules.kept_ms
    for at, start in enumerate(kept):
        if len(kept) - at > rules.kept_max or start < oldest_ms:
            del spans[start]
            out.forgotten.append(start)
            if out.books.spans[start].stored:  # not only in this very step
                out.dropped.append(start)
    if out.forgotten:
        out.stored = [(start, w) for start, w in out.stored if start in spans]


def _bind(spans: dict[int, Span], intakes: tuple[Intake, ...]) -> dict[int, Span]:
    """The spans with what is now known of their neighbourhood."""
    spans = dict(spans)
    for start, span in spans.items():
        if not span.below and span.epoch:
            intake = gaps.find(intakes, span.epoch)
            if gaps.covers(intake, 1, span.first):
                spans[start] = replace(span, below=True)
    for before, after in pairwise(sorted(spans)):
        one, other = spans[before], spans[after]
        if (one.above and other.below) or one.epoch != other.epoch or one.last >= other.first:
            continue
        if one.epoch and gaps.covers(gaps.find(intakes, one.epoch), one.last, other.first):
            spans[before] = replace(one, above=True)
            spans[after] = replace(other, below=True)
    return spans


def _complete(span: Span, intakes: tuple[Intake, ...]) -> bool:
    return (
        span.below
        and span.above
        and bool(span.epoch)
        and gaps.covers(gaps.find(intakes, span.epoch), span.first, span.last)
    )
