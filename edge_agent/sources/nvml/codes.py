"""NVML's return codes and what they mean here.

A code says one of: this device does not have it (asked once), not this time (a reason),
nothing new (no trouble at all), this GPU is gone, or the library is.
"""

from typing import Any, Final

from edge_agent.core import reading
from edge_agent.errors import DriverMismatchError, SourceError

Library = Any
"""What of `pynvml` is used: its functions by name, its structures, `NVMLError` with `.value`, and
`nvmlLib`, the loaded library."""

INVALID_ARGUMENT: Final = 2
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
INSUFFICIENT_SIZE: Final = 7
TIMEOUT: Final = 10
FUNCTION_NOT_FOUND: Final = 13
GPU_IS_LOST: Final = 15
RESET_REQUIRED: Final = 16
MISMATCH: Final = 18
UNKNOWN: Final = 999
UNSUPPORTED: Final = frozenset({3, 13, 22, 24, 25, 26, 29})
"""Not supported, no such function, ECC or frequency or version or state that is not there."""
NOTHING_NEW: Final = frozenset({NOT_FOUND, 21, 27})
"""Not found, no data, not ready: an idle GPU answers so."""
LIBRARY_GONE: Final = frozenset({1, 9, 12, MISMATCH})
"""Uninitialised, no driver, no library, library and driver of different versions."""


class GpuLostError(Exception):
    """NVML says that this GPU is off the bus; never leaves this package."""


def outcome(code: int, text: str) -> reading.Unsupported | reading.Failed:
    """What a code means for one reading; raises when it means more than that."""
    if code in UNSUPPORTED:
        return reading.UNSUPPORTED
    if code == GPU_IS_LOST:
        raise GpuLostError
    if code == MISMATCH:
        raise DriverMismatchError(f"NVML: {text}")
    if code in LIBRARY_GONE:
        raise SourceError(f"NVML: {text}")
    return reading.Failed(text)


def of(lib: Library, error: Exception) -> reading.Unsupported | reading.Failed:
    """The same for an exception of the binding, whatever its kind.

    The binding decodes texts strictly and reads structures as it finds them, so garbage
    from a call can raise anything.
    """
    if isinstance(error, lib.NVMLError):
        return outcome(error.value, str(error))
    return reading.Failed(f"{type(error).__name__}: {error}")


def tried(lib: Library, function: str, *args: Any) -> Any:
    """The value of a call, or None when it cannot be had, for whatever reason."""
    try:
        return getattr(lib, function)(*args)
    except (lib.NVMLError, ValueError, TypeError, AttributeError, OverflowError):
        return None


def told(answer: object, name: str) -> Any:
    """A field of a structure, or None: the binding decodes a text when it is looked at."""
    try:
        return getattr(answer, name, None)
    except UnicodeDecodeError:
        return None


def text(value: object) -> str | None:
    """The same text whether the binding gives bytes or str."""
    if value is None:
        return None
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
