"""From what a source said to what the contract allows.

Three kinds of "no value" are kept apart. `UNSUPPORTED` becomes None and is reported
back, so that the birth record can list it once. `Failed` becomes None with its reason
in the record's `errors`. A value that cannot be true (NaN, an all-ones sentinel, 400 %,
4 GW) becomes None and is counted; it is never clamped, because a clamped lie still
looks like a reading. Zero stays zero.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from msgspec import Struct

from edge_agent.core import reading
from wire.sample import Gpu, Process, RecoveryAction

SENTINELS: Final = frozenset({2**32 - 1, 2**64 - 1, 2**63 - 1})
POWER_MW_MAX: Final = 10_000_000
POWER_OVER_LIMIT_MAX: Final = 4
COUNT_MAX: Final = 2**53
PID_MAX: Final = 2**22
TEXT_MAX: Final = 1024
PROCESSES_MAX: Final = 256


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
    invalid_count = 0
    for name, value in raw.readings.items():
        check = _CHECKS.get(name)
        if check is None or value is None:
            continue
        if isinstance(value, reading.Unsupported):
            unsupported.append(name)
        elif isinstance(value, reading.Failed):
            errors[name] = text(value.reason)
        else:
            sound = check(value)
            if sound is None:
                invalid_count += 1
            else:
                values[name] = sound
    if _power_is_impossible(values):
        del values["power_mw"]
        invalid_count += 1
    processes, invalid_processes = _processes(raw.processes)
    return Normalized(
        gpu=Gpu(uuid=raw.uuid, state=raw.state, processes=processes, errors=errors, **values),
        unsupported=tuple(unsupported),
        invalid_count=invalid_count + invalid_processes,
    )


def text(value: object) -> str:
    """Text that any JSON writer takes: bytes decoded, surrogates replaced, length bounded."""
    plain = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return plain.encode(errors="replace").decode()[:TEXT_MAX]


def _power_is_impossible(values: Mapping[str, Any]) -> bool:
    power_mw = values.get("power_mw")
    limit_mw = values.get("power_limit_mw")
    return bool(power_mw and limit_mw and power_mw > POWER_OVER_LIMIT_MAX * limit_mw)


def _processes(raw: tuple[reading.RawProcess, ...]) -> tuple[tuple[Process, ...], int]:
    kept: list[Process] = []
    invalid_count = 0
    for one in raw:
        if not _is_number(one.pid) or not 0 < one.pid <= PID_MAX:
            invalid_count += 1
            continue
        memory_used_bytes, bad_memory = _optional(_count, one.memory_used_bytes)
        sm_utilization_percent, bad_utilization = _optional(_percent, one.sm_utilization_percent)
        invalid_count += bad_memory + bad_utilization
        kept.append(
            Process(
                pid=one.pid,
                name=None if one.name is None else text(one.name),
                pod_uid=None if one.pod_uid is None else text(one.pod_uid),
                memory_used_bytes=memory_used_bytes,
                sm_utilization_percent=sm_utilization_percent,
            )
        )
    return tuple(kept[:PROCESSES_MAX]), invalid_count


def _optional(check: Callable[[Any], Any], value: Any) -> tuple[Any, int]:
    if value is None or isinstance(value, reading.Unsupported | reading.Failed):
        return None, 0
    sound = check(value)
    return sound, int(sound is None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _percent(value: Any) -> float | None:
    return float(value) if _is_number(value) and 0 <= value <= 100 else None


def _count(value: Any) -> int | None:
    if not _is_number(value) or value in SENTINELS or not 0 <= value <= COUNT_MAX:
        return None
    return int(value)


def _power(value: Any) -> int | None:
    count = _count(value)
    return count if count is not None and count <= POWER_MW_MAX else None


def _temperature(value: Any) -> float | None:
    return float(value) if _is_number(value) and -50 <= value <= 200 else None


def _reasons(value: Any) -> tuple[str, ...] | None:
    return tuple(text(one) for one in value) if isinstance(value, tuple | list) else None


def _recovery(value: Any) -> str | None:
    return value if value in get_args(RecoveryAction) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


_CHECKS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "utilization_percent": _percent,
    "memory_utilization_percent": _percent,
    "memory_total_bytes": _count,
    "memory_used_bytes": _count,
    "memory_free_bytes": _count,
    "memory_reserved_bytes": _count,
    "power_mw": _power,
    "power_limit_mw": _power,
    "energy_mj": _count,
    "temperature_c": _temperature,
    "temperature_slowdown_c": _temperature,
    "sm_clock_mhz": _count,
    "memory_clock_mhz": _count,
    "throttle_reasons": _reasons,
    "ecc_uncorrected_count": _count,
    "recovery_action": _recovery,
    "mig_enabled": _flag,
}
