"""What happened between two ticks: GPUs lost and back, throttling begun and over.

A source tells levels; a level that stays says nothing new. This module compares, so
that each change is one event. A GPU that was there and is not in a complete
observation any more is lost; it stays in the samples, marked so, until it is back.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from wire.sample import Event, Gpu, GpuState

SLOWDOWNS: Final = frozenset(
    {"hw-slowdown", "hw-thermal-slowdown", "hw-power-brake-slowdown", "sw-thermal-slowdown"}
)


class Known(Struct, frozen=True):
    """What the last tick said of one GPU."""

    state: GpuState
    slowdowns: tuple[str, ...] = ()


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
    if complete:
        missing = [uuid for uuid in known if uuid not in present]
        gpus = (*gpus, *(Gpu(uuid=uuid, state="lost") for uuid in missing))
    after = dict(known)
    events: list[Event] = []
    for gpu in gpus:
        now = Known(gpu.state, _slowdowns(gpu, known.get(gpu.uuid)))
        events += _changes(gpu.uuid, known.get(gpu.uuid), now, ts_unix_ms)
        after[gpu.uuid] = now
    return Compared(known=after, events=tuple(events), gpus=gpus)


def _slowdowns(gpu: Gpu, before: Known | None) -> tuple[str, ...]:
    """The slowdowns in force; those of before when they could not be read."""
    if gpu.throttle_reasons is None:
        return before.slowdowns if before is not None and gpu.state == "ok" else ()
    return tuple(reason for reason in gpu.throttle_reasons if reason in SLOWDOWNS)


def _changes(uuid: str, before: Known | None, now: Known, ts_unix_ms: int) -> list[Event]:
    was_lost = before is not None and before.state == "lost"
    was_slow = before is not None and bool(before.slowdowns)
    found: list[Event] = []
    if now.state == "lost" and not was_lost:
        found.append(
            Event(
                seq=1,
                ts_unix_ms=ts_unix_ms,
                event="gpu-lost",
                gpu_uuid=uuid,
                detail="the driver does not reach this GPU any more",
            )
        )
    elif now.state != "lost" and was_lost:
        found.append(Event(seq=1, ts_unix_ms=ts_unix_ms, event="gpu-back", gpu_uuid=uuid))
    if now.slowdowns and not was_slow:
        detail = ", ".join(now.slowdowns)
        found.append(
            Event(
                seq=1, ts_unix_ms=ts_unix_ms, event="throttle-start", gpu_uuid=uuid, detail=detail
            )
        )
    elif was_slow and not now.slowdowns and now.state == "ok":
        found.append(Event(seq=1, ts_unix_ms=ts_unix_ms, event="throttle-stop", gpu_uuid=uuid))
    return found
