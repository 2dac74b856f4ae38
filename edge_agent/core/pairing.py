"""Pairing: an XID that NVML and the kernel's log both tell is one XID.

Whichever way comes first, what it told is remembered as pending until the other way tells
the same (GPU, code) or it is too late for that. How many lines the log writes for an XID is
the driver's affair (up to three for a 13), so numbers are paired and not single tellings:
as long as the log tells everything, all counts sum to what the log tells.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from edge_agent.core import folding

PAIR_MS: Final = 30_000
"""How far apart the two tellings may be. Both come within milliseconds, later when the
driver holds its locks for a reset; a minute apart they are two XIDs."""
DRIFT_MS: Final = 300_000
"""How wrong an old log record's time may be: the kernel's log has a clock that nobody
disciplines, and 50 ppm are five minutes in seventy days."""
MERGE_MS: Final = 1_000
PENDING_MAX: Final = 128
"""Entries of one way, the oldest go first. Without a readable log those of NVML stay, in
case that it becomes readable."""


class Pending(Struct, frozen=True, kw_only=True):
    """XIDs that one way told and the other has not; `gpu` is a UUID, else a PCI address."""

    gpu: str
    xid: int
    at_ms: int
    ts_unix_ms: int
    count: int


class Paired(Struct, frozen=True):
    """How many the other way has not told, and what is pending of it still."""

    count: int
    pending: tuple[Pending, ...]


def pair(
    told: folding.Told,
    pending: tuple[Pending, ...],
    *,
    is_logged: bool,
    uuid_of: Mapping[str, str],
    now_ms: int,
) -> Paired:
    """Pair what was told now with what the other way told before, oldest first.

    A log record of long ago may also belong to what NVML told then: the log became readable
    only now.
    """
    if not pending or told.xid is None:
        return Paired(told.count, pending)
    is_old = is_logged and now_ms - told.happened_ms > PAIR_MS
    left = told.count
    kept: list[Pending] = []
    for one in pending:
        is_near = abs(now_ms - one.at_ms) <= PAIR_MS
        is_then = is_old and abs(told.ts_unix_ms - one.ts_unix_ms) <= DRIFT_MS
        if (is_near or is_then) and _is_same(told, one, uuid_of):
            paired = min(left, one.count)
            left -= paired
            if paired < one.count:
                kept.append(msgspec.structs.replace(one, count=one.count - paired))
        else:
            kept.append(one)
    return Paired(left, tuple(kept))


def remember(pending: tuple[Pending, ...], told: folding.Told, now_ms: int) -> tuple[Pending, ...]:
    """`pending` with what was told now; equal ones within a second are one entry."""
    if told.xid is None:
        return pending
    gpu = folding.gpu_of(told)
    for index in range(len(pending) - 1, -1, -1):
        one = pending[index]
        if (one.gpu, one.xid) == (gpu, told.xid) and 0 <= now_ms - one.at_ms < MERGE_MS:
            more = msgspec.structs.replace(one, count=one.count + told.count)
            return (*pending[:index], more, *pending[index + 1 :])
    new = Pending(gpu=gpu, xid=told.xid, at_ms=now_ms, ts_unix_ms=told.ts_unix_ms, count=told.count)
    return (*pending, new)[-PENDING_MAX:]


def wait_anew(pending: Sequence[Pending], now_ms: int) -> tuple[Pending, ...]:
    """As if all had been told now."""
    return tuple(msgspec.structs.replace(one, at_ms=now_ms) for one in pending)


def in_time(pending: Sequence[Pending], now_ms: int) -> tuple[Pending, ...]:
    """Without those for which it is too late."""
    return tuple(one for one in pending if abs(now_ms - one.at_ms) <= PAIR_MS)


def _is_same(told: folding.Told, one: Pending, uuid_of: Mapping[str, str]) -> bool:
    """Whether both can be of one GPU and code; a GPU that nobody named may be any."""
    gpu = folding.gpu_of(told)
    is_gpu = not gpu or not one.gpu or uuid_of.get(one.gpu, one.gpu) == gpu
    return one.xid == told.xid and is_gpu
