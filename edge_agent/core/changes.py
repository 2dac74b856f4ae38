"""What happened between two ticks of a source, from levels to events.

A source tells levels; a level that stays says nothing new. This module compares, so
that each change is one event: a GPU lost, unresponsive, or back; throttling begun and
over; another recovery action; uncorrectable memory errors; a row remap that failed; a
GPU that was not there before.

A GPU that was there and is not in a complete observation any more is lost; it stays in
the samples, marked so, until it is back, until a GPU that was never seen takes its place,
or until it has been gone for `FORGET_MS`: a card that was taken out on purpose must not
stay an alarm for ever. What is known may be
kept over a restart, so that a card that did not survive a reboot is missed as well.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from wire.sample import Event, EventName, Gpu, GpuState

SLOWDOWNS: Final = frozenset(
    {"hw-slowdown", "hw-thermal-slowdown", "hw-power-brake-slowdown", "sw-thermal-slowdown"}
)
AWAY: Final = frozenset({"lost", "unresponsive"})
FORGET_MS: Final = 24 * 3_600_000


class Known(Struct, frozen=True, kw_only=True):
    """What the last tick said of one GPU; a value that it did not say is that of before."""

    state: GpuState
    slowdowns: tuple[str, ...] = ()
    recovery_action: str = "none"
    ecc_uncorrected_count: int | None = None
    remap_failed: bool = False
    lost_unix_ms: int | None = None


class Compared(Struct, frozen=True, kw_only=True):
    """What is known now, the events since, and the GPUs with those that are missing."""

    known: Mapping[str, Known]
    events: tuple[Event, ...]
    gpus: tuple[Gpu, ...]


def compare(
    known: Mapping[str, Known], gpus: tuple[Gpu, ...], *, complete: bool, ts_unix_ms: int
) -> Compared:
    """`gpus` against what was known before; the events have no seq of their own yet."""
    present = {gpu.uuid for gpu in gpus}
    kept = {
        uuid: one for uuid, one in known.items() if uuid in present or not _old(one, ts_unix_ms)
    }
    after = dict(kept)
    events: list[Event] = []
    if complete:
        missing = [uuid for uuid in kept if uuid not in present]
        for new in [gpu.uuid for gpu in gpus if kept and gpu.uuid not in kept]:
            detail = f"{len(present)} GPUs, {len(kept)} known before"
            if missing:
                replaced = missing.pop(0)
                del after[replaced]
                detail = f"in the place of {replaced}"
            events.append(_event("gpu-count-changed", new, ts_unix_ms, detail))
        gpus = (*gpus, *(Gpu(uuid=uuid, state="lost") for uuid in missing))
    for gpu in gpus:
        before = kept.get(gpu.uuid)
        after[gpu.uuid] = _known(gpu, before, ts_unix_ms)
        events += _changes(gpu.uuid, before, after[gpu.uuid], ts_unix_ms)
    return Compared(known=after, events=tuple(events), gpus=gpus)


def _old(one: Known, ts_unix_ms: int) -> bool:
    return one.lost_unix_ms is not None and ts_unix_ms - one.lost_unix_ms >= FORGET_MS


def _known(gpu: Gpu, before: Known | None, ts_unix_ms: int) -> Known:
    """What this tick says; what it could not read is as it was."""
    now = before or Known(state=gpu.state)
    lost_unix_ms = None
    if gpu.state == "lost":
        lost_unix_ms = ts_unix_ms if now.lost_unix_ms is None else now.lost_unix_ms
    slowdowns = now.slowdowns if gpu.state == "ok" else ()
    if gpu.throttle_reasons is not None:
        slowdowns = tuple(reason for reason in gpu.throttle_reasons if reason in SLOWDOWNS)
    ecc_count = gpu.ecc_uncorrected_count
    return replace(
        now,
        state=gpu.state,
        slowdowns=slowdowns,
        recovery_action=gpu.recovery_action or now.recovery_action,
        ecc_uncorrected_count=now.ecc_uncorrected_count if ecc_count is None else ecc_count,
        remap_failed=now.remap_failed
        if gpu.remapped_rows_failed is None
        else gpu.remapped_rows_failed,
        lost_unix_ms=lost_unix_ms,
    )


def _changes(uuid: str, before: Known | None, now: Known, ts_unix_ms: int) -> Iterator[Event]:
    was = before or Known(state="ok")
    if now.state == "lost" and was.state != "lost":
        detail = "the driver does not reach this GPU any more"
        yield _event("gpu-lost", uuid, ts_unix_ms, detail)
    elif now.state == "unresponsive" and was.state != "unresponsive":
        detail = "a call of the driver for this GPU does not return"
        yield _event("gpu-unresponsive", uuid, ts_unix_ms, detail)
    elif was.state in AWAY and now.state not in AWAY:
        yield _event("gpu-back", uuid, ts_unix_ms, "")
    if now.slowdowns and not was.slowdowns:
        yield _event("throttle-start", uuid, ts_unix_ms, ", ".join(now.slowdowns))
    elif was.slowdowns and not now.slowdowns and now.state == "ok":
        yield _event("throttle-stop", uuid, ts_unix_ms, "")
    if now.recovery_action != was.recovery_action:
        detail = f"{was.recovery_action} before, {now.recovery_action} now"
        yield _event("recovery-action-changed", uuid, ts_unix_ms, detail)
    if now.remap_failed and not was.remap_failed:
        yield _event("row-remap-failed", uuid, ts_unix_ms, "")
    errors_before, errors = was.ecc_uncorrected_count, now.ecc_uncorrected_count
    if errors_before is not None and errors is not None and errors > errors_before:
        detail = f"{errors} since the driver was loaded"
        event = _event("ecc-double-bit", uuid, ts_unix_ms, detail)
        yield replace(event, count=errors - errors_before)


def _event(name: EventName, uuid: str, ts_unix_ms: int, detail: str) -> Event:
    return Event(seq=1, ts_unix_ms=ts_unix_ms, event=name, gpu_uuid=uuid, detail=detail)
