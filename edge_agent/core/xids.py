"""The ledger of XIDs: each one that happened is told once, whoever tells of it.

An XID comes through NVML, through the kernel's log (with a sequence and the driver's own
words), or through both, in either order; and the log is read from its beginning at each
start. So the ledger keeps how far the log was handled, what one way told and the other has
not (`pairing`), and what was counted and is still to go out (`folding`). It is kept on disk
in the transaction that stores the events it led to, so all of this holds across restarts.

| told by | then |
|---|---|
| the log, a record handled before | nothing |
| either way, and the other told it already | nothing: it was counted then |
| otherwise | remembered for the other way, counted; the first of its kind goes out at once |

Waiting is on the monotonic clock. The wall clock dates events, and decides about nothing
but log records that are old already.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from edge_agent.core import checks, folding, pairing, reading
from wire.sample import Event

KEYS_MAX: Final = 256
"""Folds open at a time: 16 GPUs with 16 codes each in one minute. What exceeds it is
counted together, without GPU and code."""
CODE_MAX: Final = 65_535
NAMELESS: Final = ("", None)

Key = tuple[str, int | None]


class Ledger(Struct, frozen=True, kw_only=True):
    """What is known of the XIDs so far: plain data, kept as JSON.

    `heard`: NVML told it and the log has not; `logged`: the other way round.
    """

    boot_id: str = ""
    sequence: int = -1
    heard: tuple[pairing.Pending, ...] = ()
    logged: tuple[pairing.Pending, ...] = ()
    folds: tuple[folding.Fold, ...] = ()


class Step(Struct, frozen=True):
    """The ledger after it, the same object when nothing changed, and what is to be told."""

    ledger: Ledger
    events: tuple[Event, ...]


def resume(ledger: Ledger, *, boot_id: str, now_ms: int) -> Ledger:
    """The ledger in a new process, before its first step.

    After a reboot nothing of before is waited for, and what was counted goes out. Otherwise
    what one way told before the restart is waited for anew: the other may tell it now.
    """
    if boot_id and ledger.boot_id not in {"", boot_id}:
        return _rebooted(ledger, boot_id, now_ms)
    return msgspec.structs.replace(
        ledger,
        boot_id=boot_id or ledger.boot_id,
        heard=pairing.wait_anew(ledger.heard, now_ms),
        logged=pairing.wait_anew(ledger.logged, now_ms),
    )


def step(
    ledger: Ledger,
    events: Sequence[reading.RawEvent],
    *,
    uuid_of: Mapping[str, str],
    now_ms: int,
    now_unix_ms: int,
) -> Step:
    """What follows from `events`, or from the mere passing of time.

    The log goes first: where both ways are at hand, its words are the better ones.
    """
    if not events and not ledger.folds:
        return Step(ledger, ())
    work = _Work(ledger, uuid_of, now_ms, now_unix_ms)
    work.settle()
    for event in sorted(events, key=lambda one: one.log is None):
        if event.event == "xid" and event.xid is not None:
            work.take(event, event.xid)
        else:
            work.told.append(_passed(event, now_unix_ms))
    work.settle()
    after = work.ledger()
    return Step(ledger if after == ledger else after, tuple(work.told))


class _Work:
    """One step under way: the ledger's parts in a shape that is quick to change."""

    def __init__(
        self, ledger: Ledger, uuid_of: Mapping[str, str], now_ms: int, now_unix_ms: int
    ) -> None:
        self._uuid_of = uuid_of
        self._now_ms = now_ms
        self._now_unix_ms = now_unix_ms
        self.told: list[Event] = []
        self._open(ledger)

    def _open(self, ledger: Ledger) -> None:
        self._boot_id = ledger.boot_id
        self._sequence = ledger.sequence
        self._heard = ledger.heard
        self._logged = pairing.in_time(ledger.logged, self._now_ms)
        self._folds: dict[Key, folding.Fold] = {
            (folding.gpu_of(one), one.xid): one for one in ledger.folds
        }

    def ledger(self) -> Ledger:
        return Ledger(
            boot_id=self._boot_id,
            sequence=self._sequence,
            heard=self._heard,
            logged=self._logged,
            folds=tuple(self._folds.values()),
        )

    def settle(self) -> None:
        """Let the folds go whose time is over."""
        for key, fold in list(self._folds.items()):
            self._keep(key, folding.settle(fold, self._now_ms))

    def take(self, event: reading.RawEvent, xid: int) -> None:
        """One telling of an XID."""
        if event.log is not None and not self._is_new(event.log):
            return
        told = self._told(event, xid)
        is_logged = event.log is not None
        other = self._heard if is_logged else self._logged
        paired = pairing.pair(
            told, other, is_logged=is_logged, uuid_of=self._uuid_of, now_ms=self._now_ms
        )
        told = msgspec.structs.replace(told, count=paired.count)
        if is_logged:
            self._heard = paired.pending
        else:
            self._logged = paired.pending
        if told.count == 0:
            return
        if is_logged:
            self._logged = pairing.remember(self._logged, told, self._now_ms)
        else:
            self._heard = pairing.remember(self._heard, told, self._now_ms)
        self._fold(told)

    def _is_new(self, log: reading.LogPosition) -> bool:
        """Whether this record was not handled before; the ledger moves on to it."""
        if log.boot_id != self._boot_id:
            if self._boot_id:
                self._open(_rebooted(self.ledger(), log.boot_id, self._now_ms))
            self._boot_id = log.boot_id
        if log.sequence <= self._sequence:
            return False
        self._sequence = log.sequence
        return True

    def _told(self, event: reading.RawEvent, xid: int) -> folding.Told:
        ts_unix_ms = self._now_unix_ms if event.ts_unix_ms is None else event.ts_unix_ms
        is_code = 0 <= xid <= CODE_MAX
        return folding.Told(
            gpu_uuid=checks.uuid(event.gpu_uuid) or self._uuid_of.get(event.pci_bus_id or ""),
            pci_bus_id=event.pci_bus_id,
            xid=xid if is_code else None,
            count=max(1, event.count),
            ts_unix_ms=max(0, ts_unix_ms),
            happened_ms=self._now_ms - max(0, self._now_unix_ms - ts_unix_ms),
            said=event.detail if is_code else f"code {xid}",
        )

    def _fold(self, told: folding.Told) -> None:
        key = (folding.gpu_of(told), told.xid)
        if key not in self._folds and len(self._folds) >= KEYS_MAX:
            key = NAMELESS
            told = msgspec.structs.replace(told, gpu_uuid=None, pci_bus_id=None, xid=None)
        self._keep(key, folding.add(self._folds.get(key), told))

    def _keep(self, key: Key, folded: folding.Folded) -> None:
        if folded.event is not None:
            self.told.append(folded.event)
        if folded.fold is None:
            del self._folds[key]
        else:
            self._folds[key] = folded.fold


def _rebooted(ledger: Ledger, boot_id: str, now_ms: int) -> Ledger:
    """Another boot: the log begins anew and nothing that is pending will come any more."""
    return Ledger(boot_id=boot_id, folds=tuple(folding.end(one, now_ms) for one in ledger.folds))


def _passed(event: reading.RawEvent, now_unix_ms: int) -> Event:
    """An event that is no XID, as it came."""
    return Event(
        seq=1,
        ts_unix_ms=now_unix_ms if event.ts_unix_ms is None else event.ts_unix_ms,
        event=event.event,
        gpu_uuid=event.gpu_uuid,
        pci_bus_id=event.pci_bus_id,
        count=event.count,
        detail=checks.text(event.detail),
    )
