"""From what a source said to what the contract allows.

Three kinds of "no value" are kept apart. `UNSUPPORTED` becomes None and is reported
back, so that the birth record can list it once. `Failed` becomes None with its reason
in the record's `errors`. A value that cannot be true (NaN, an all-ones sentinel, 400 %,
4 GW, more memory used than there is) becomes None and is counted; it is never clamped,
because a clamped lie still looks like a reading. Zero stays zero.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from edge_agent.core import checks, reading
from wire.sample import Gpu, MigInstance, Process

NUMBERS: Final = checks.NUMBERS
POWER_OVER_LIMIT_MAX: Final = 4
POWERS: Final = ("power_mw", "power_mean_mw", "power_max_mw")
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "memory_total_bytes": ("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes"),
    "bar1_total_bytes": ("bar1_used_bytes",),
}
PROCESSES_MAX: Final = 256
MIG_MAX: Final = 64


class Normalized(Struct, frozen=True, kw_only=True):
    """A GPU as it goes on the wire, and what was found on the way."""

    gpu: Gpu
    unsupported: tuple[str, ...] = ()
    invalid_count: int = 0


def normalize(raw: reading.RawGpu) -> Normalized:
    """One GPU of the contract from one GPU of a source."""
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    unsupported: list[str] = []
    invalid_count = raw.invalid_count
    numbers, sentinels = NUMBERS, checks.SENTINELS
    for name, value in raw.readings.items():
        if type(value) is int and name in numbers:  # most of them: not worth a call
            low, high = numbers[name]
            if low <= value <= high and value not in sentinels:
                values[name] = value
            else:
                invalid_count += 1
            continue
        check = checks.GPU.get(name)
        if check is None or value is None:
            continue
        if isinstance(value, reading.Unsupported):
            unsupported.append(name)
        elif isinstance(value, reading.Failed):
            errors[name] = checks.text(value.reason)
        else:
            sound = check(value)
            if sound is None:
                invalid_count += 1
            else:
                values[name] = sound
    for name in _contradictions(values):
        del values[name]
        invalid_count += 1
    processes, invalid_processes = _processes(raw.processes)
    mig, invalid_mig = _mig(raw.mig)
    return Normalized(
        gpu=Gpu(
            uuid=checks.uuid(raw.uuid) or "unknown",
            state=raw.state,
            mig=mig,
            processes=processes[:PROCESSES_MAX],
            processes_omitted_count=max(0, len(processes) - PROCESSES_MAX),
            errors=errors,
            **values,
        ),
        unsupported=tuple(unsupported),
        invalid_count=invalid_count + invalid_processes + invalid_mig,
    )


def _contradictions(values: Mapping[str, Any]) -> list[str]:
    """Values that are possible alone and not beside the others."""
    found: list[str] = []
    power_mw_max = POWER_OVER_LIMIT_MAX * values.get("power_limit_mw", checks.POWER_MW_MAX)
    if power_mw_max:
        found += [name for name in POWERS if values.get(name, 0) > power_mw_max]
    for total, parts in PARTS.items():
        total_bytes = values.get(total)
        if total_bytes is not None:
            found += [name for name in parts if values.get(name, 0) > total_bytes]
    return found


def _processes(raw: tuple[reading.RawProcess, ...]) -> tuple[tuple[Process, ...], int]:
    kept: list[Process] = []
    invalid_count = 0
    for one in raw:
        pid = checks.pid(one.pid)
        if pid is None:
            invalid_count += 1
            continue
        values, invalid = _optional(one, checks.PROCESS)
        invalid_count += invalid
        kept.append(Process(pid=pid, kind=one.kind, owner=one.owner, **values))
    return tuple(kept), invalid_count


def _mig(raw: tuple[reading.RawMig, ...]) -> tuple[tuple[MigInstance, ...], int]:
    kept: list[MigInstance] = []
    invalid_count = 0
    for one in raw[:MIG_MAX]:
        uuid = checks.uuid(one.uuid)
        if uuid is None:
            invalid_count += 1
            continue
        values, invalid = _optional(one, checks.MIG)
        invalid_count += invalid
        kept.append(MigInstance(uuid=uuid, **values))
    return tuple(kept), invalid_count


def _optional(one: Struct, table: Mapping[str, checks.Check]) -> tuple[dict[str, Any], int]:
    """What is sound of the optional values of `one`, and how many are not."""
    values: dict[str, Any] = {}
    invalid_count = 0
    for name, check in table.items():
        value = getattr(one, name)
        if value is None or isinstance(value, reading.Unsupported | reading.Failed):
            continue
        sound = check(value)
        if sound is None:
            invalid_count += 1
        else:
            values[name] = sound
    return values, invalid_count
