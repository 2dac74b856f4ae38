"""Folding: many equal XIDs become few events, and their counts still sum to all of them.

The first XID of a (GPU, code) goes out at once and opens a fold of `FOLD_MS`. Equal ones
within it are counted and go out together at its end, as one event with their number and
the times of the first and the last; then the next fold begins. A fold that counted nothing
is forgotten, so that the next XID goes out at once again.

The window does not grow: a storm that lasts a day costs 1,440 records, which is less than
its samples by far, and a person who watches never waits more than a minute for the count.

Folds run on the time at which an XID happened, as far as it is known, so that a kernel log
read from its beginning after hours gives the same events as one that was listened to.
"""

from typing import Final

import msgspec
from msgspec import Struct

from edge_agent.core import checks
from wire import xids
from wire.sample import Event

FOLD_MS: Final = 60_000
"""One record a minute and key: two XIDs a minute apart stay two events (a program that
crash-loops), 10,000 in a minute are two."""
DETAIL_CHARS_MAX: Final = 1024
NAMELESS: Final = "XIDs with an impossible code, or of more kinds than can be kept apart"


class Told(Struct, frozen=True, kw_only=True):
    """An XID, or several, as it was told; `xid` None: of many kinds, or of none there is.

    `happened_ms` is on the monotonic clock.
    """

    gpu_uuid: str | None
    pci_bus_id: str | None
    xid: int | None
    count: int
    ts_unix_ms: int
    happened_ms: int
    said: str


class Fold(Struct, frozen=True, kw_only=True):
    """What was counted of one (GPU, code) since `from_ms` and has not gone out yet."""

    gpu_uuid: str | None
    pci_bus_id: str | None
    xid: int | None
    from_ms: int
    count: int = 0
    ts_unix_ms: int = 0
    ts_last_unix_ms: int = 0
    said: str = ""


class Folded(Struct, frozen=True):
    """The fold as it is now, None when it is forgotten, and the event that left it."""

    fold: Fold | None
    event: Event | None = None


def gpu_of(one: Told | Fold) -> str:
    """By what its GPU is known: the UUID, else the PCI address, else nothing."""
    return one.gpu_uuid or one.pci_bus_id or ""


def add(fold: Fold | None, told: Told) -> Folded:
    """One more of the fold's kind; at most one event leaves."""
    left: Event | None = None
    if fold is not None and told.happened_ms - fold.from_ms >= FOLD_MS:
        closed = _close(fold, told.happened_ms)
        fold, left = closed.fold, closed.event
    if fold is None:
        return Folded(_begin(told), _event(_count(_begin(told), told)))
    return Folded(_count(fold, told), left)


def settle(fold: Fold, now_ms: int) -> Folded:
    """The fold when no more came; one that began in the future is of another clock: over."""
    if 0 <= now_ms - fold.from_ms < FOLD_MS:
        return Folded(fold)
    return _close(fold, now_ms)


def end(fold: Fold, now_ms: int) -> Fold:
    """The fold with its time over, so that it settles now."""
    return msgspec.structs.replace(fold, from_ms=now_ms - FOLD_MS)


def _begin(told: Told) -> Fold:
    return Fold(
        gpu_uuid=told.gpu_uuid,
        pci_bus_id=told.pci_bus_id,
        xid=told.xid,
        from_ms=told.happened_ms,
    )


def _count(fold: Fold, told: Told) -> Fold:
    """The order of telling is not always that of happening: the times are the outer ones."""
    if fold.count == 0:
        first = last = told.ts_unix_ms
    else:
        first = min(fold.ts_unix_ms, told.ts_unix_ms)
        last = max(fold.ts_last_unix_ms, told.ts_unix_ms)
    return msgspec.structs.replace(
        fold,
        count=fold.count + told.count,
        ts_unix_ms=first,
        ts_last_unix_ms=last,
        said=fold.said or told.said,
    )


def _close(fold: Fold, at_ms: int) -> Folded:
    if fold.count == 0:
        return Folded(None)
    emptied = msgspec.structs.replace(
        fold, from_ms=at_ms, count=0, ts_unix_ms=0, ts_last_unix_ms=0, said=""
    )
    return Folded(emptied, _event(fold))


def _event(fold: Fold) -> Event:
    """The record of what was counted, with the catalogue's words."""
    if fold.xid is None:
        name, known = NAMELESS, None
    else:
        known = xids.lookup(fold.xid)
        name = known.name
    return Event(
        seq=1,
        ts_unix_ms=fold.ts_unix_ms,
        event="xid",
        gpu_uuid=fold.gpu_uuid,
        pci_bus_id=fold.pci_bus_id,
        xid=fold.xid,
        xid_class=known.xid_class if known else "unknown",
        severity=known.severity if known else "unknown",
        action=known.action if known else "none",
        count=fold.count,
        ts_last_unix_ms=fold.ts_last_unix_ms if fold.count > 1 else None,
        detail=checks.text(f"{name}: {fold.said}" if fold.said else name)[:DETAIL_CHARS_MAX],
    )
