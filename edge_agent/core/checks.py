"""Which values can be true: one check per reading.

What a value may be follows from the unit at the end of its name; the few that have no
unit, or a narrower bound, are listed by name. A check gives the value as the contract
has it, or None.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from edge_agent.core import reading
from wire.sample import ConfidentialCompute, EnergyMethod, MemoryMethod, RecoveryAction

SENTINELS: Final = frozenset({2**32 - 1, 2**64 - 1, 2**63 - 1})
POWER_MW_MAX: Final = 10_000_000
CLOCK_MHZ_MAX: Final = 100_000
FAN_RPM_MAX: Final = 100_000
SMALL_MAX: Final = 1_024  # generations, lanes, links
COUNT_MAX: Final = 2**53
PID_MAX: Final = 2**22
TEXT_MAX: Final = 1024
UUID_MAX: Final = 96

Check = Callable[[Any], Any]
Bounds = tuple[int, int] | tuple[float, float]


def text(value: object) -> str:
    """Text that any JSON writer takes: bytes decoded, surrogates replaced, length bounded."""
    plain = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return plain.encode(errors="replace").decode()[:TEXT_MAX]


def pid(value: Any) -> int | None:
    """A pid that Linux can give."""
    return value if isinstance(value, int) and 0 < value <= PID_MAX else None


def uuid(value: Any) -> str | None:
    """A UUID as the contract takes it."""
    return text(value)[:UUID_MAX] or None if isinstance(value, str | bytes) else None


def within(bounds: Bounds) -> Check:
    """A number within bounds; a whole one where the upper bound is whole."""
    low, high = bounds

    def check(value: Any) -> float | None:
        kind = type(value)
        if (kind is not int and kind is not float) or not low <= value <= high:
            return None
        if value in SENTINELS:
            return None
        return int(value) if type(high) is int else value

    return check


_count = within((0, COUNT_MAX))
_link = within((0, SMALL_MAX))


def _reasons(value: Any) -> tuple[str, ...] | None:
    return tuple(text(one) for one in value) if isinstance(value, tuple | list) else None


def _links(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, tuple | list) or any(_link(one) is None for one in value):
        return None
    return tuple(value)


def _times(value: Any) -> dict[str, int] | None:
    if not isinstance(value, Mapping):
        return None
    found: dict[str, int] = {}
    for name, ms in value.items():
        sound = _count(ms)
        if sound is None:
            return None
        found[text(name)] = int(sound)
    return found


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _words(literal: Any) -> Check:
    words = frozenset(get_args(literal))
    return lambda value: value if isinstance(value, str) and value in words else None


def _plain(value: Any) -> str | None:
    return text(value) if isinstance(value, str | bytes) else None


BY_UNIT: Final[Mapping[str, Bounds]] = {
    "_percent": (0.0, 100.0),
    "_bytes": (0, COUNT_MAX),
    "_bytes_per_s": (0, COUNT_MAX),
    "_mw": (0, POWER_MW_MAX),
    "_mj": (0, COUNT_MAX),
    "_c": (-100.0, 200.0),
    "_mhz": (0, CLOCK_MHZ_MAX),
    "_rpm": (0, FAN_RPM_MAX),
    "_count": (0, COUNT_MAX),
    "_id": (0, SMALL_MAX),
}
NUMBERS_BY_NAME: Final[Mapping[str, Bounds]] = {
    "memory_total_bytes": (1, COUNT_MAX),
    "performance_state": (0, 15),
    "pcie_generation": (1, SMALL_MAX),
    "pcie_width": (0, SMALL_MAX),
    "nvlink_active_count": (0, SMALL_MAX),
}
BY_NAME: Final[Mapping[str, Check]] = {
    "memory_method": _words(MemoryMethod),
    "energy_method": _words(EnergyMethod),
    "throttle_reasons": _reasons,
    "throttled_ms": _times,
    "retired_pages_pending": _flag,
    "remapped_rows_pending": _flag,
    "remapped_rows_failed": _flag,
    "recovery_action": _words(RecoveryAction),
    "nvlink_down": _links,
    "fabric_state": _plain,
    "mig_enabled": _flag,
    "persistence_mode": _flag,
    "confidential_compute": _words(ConfidentialCompute),
}


def _bounds_of(name: str) -> Bounds:
    if name in NUMBERS_BY_NAME:
        return NUMBERS_BY_NAME[name]
    return BY_UNIT[max((unit for unit in BY_UNIT if name.endswith(unit)), key=len)]


def _check_of(name: str) -> Check:
    return BY_NAME[name] if name in BY_NAME else within(_bounds_of(name))


NUMBERS: Final[Mapping[str, Bounds]] = {
    name: _bounds_of(name) for name in reading.READABLE_FIELDS if name not in BY_NAME
}
GPU: Final[Mapping[str, Check]] = {name: _check_of(name) for name in reading.READABLE_FIELDS}
PROCESS: Final[Mapping[str, Check]] = {
    "name": _plain,
    "pod_uid": _plain,
    "container_id": _plain,
    "mig_uuid": uuid,
    "memory_used_bytes": _count,
    "sm_utilization_percent": _check_of("sm_utilization_percent"),
    "memory_utilization_percent": _check_of("memory_utilization_percent"),
    "encoder_utilization_percent": _check_of("encoder_utilization_percent"),
    "decoder_utilization_percent": _check_of("decoder_utilization_percent"),
}
MIG: Final[Mapping[str, Check]] = {
    "profile": _plain,
    "gpu_instance_id": _check_of("gpu_instance_id"),
    "compute_instance_id": _check_of("compute_instance_id"),
    "multiprocessor_count": _check_of("multiprocessor_count"),
    "memory_total_bytes": _check_of("memory_total_bytes"),
    "memory_used_bytes": _count,
    "memory_free_bytes": _count,
}
