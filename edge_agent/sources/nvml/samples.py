"""What the driver sampled between two ticks: mean and maximum of load and power.

The driver keeps samples of its own several times a second. Asked for those since the last
one seen, they make a slow tick still tell of a short burst. A buffer of the time before
the first tick is passed over. The stamps are of the wall clock: when nothing newer comes
for a while, the clock may have been set back, and it is begun anew.
"""

import ctypes
import struct
from collections.abc import Sequence
from typing import Any, Final

from edge_agent.core import checks, reading
from edge_agent.sources.nvml import codes

KINDS: Final = (
    (1, "utilization_mean_percent", "utilization_max_percent"),
    (0, "power_mean_mw", "power_max_mw"),
)
SAMPLE_BYTES: Final = 16
DRY_MAX: Final = 30
"""After so many ticks without a newer sample the stamps are not trusted any more."""
COUNT_LEAST: Final = 256
SAMPLE: Final = {
    kind: struct.Struct(f"=Q{layout}")
    for kind, layout in enumerate(["d", "I4x", "Q", "Q", "q", "i4x"])
}
"""One nvmlSample_t by the type of its value: time stamp in us, value."""


class Samples:
    """The driver's sample buffers of one device."""

    def __init__(self, lib: codes.Library, handle: Any) -> None:
        self._lib = lib
        self._handle = handle
        self._seen_us: dict[int, int | None] = {kind: None for kind, *_ in KINDS}
        self._buffers: dict[int, Any] = {}
        self._dry = dict.fromkeys(self._seen_us, 0)
        self._gone: set[int] = set()

    def read(self, readings: dict[str, Any]) -> None:
        """Add what was sampled since the last time."""
        for kind, *names in KINDS:
            if kind in self._gone:
                readings.update(dict.fromkeys(names, reading.UNSUPPORTED))
                continue
            try:
                values = self._new(kind)
            except Exception as error:  # noqa: BLE001 - garbage from a call can raise anything
                found = _outcome(self._lib, error)
                if isinstance(found, reading.Unsupported):
                    self._gone.add(kind)
                if found is not None:
                    readings.update(dict.fromkeys(names, found))
                else:
                    self._is_dry(kind)
                continue
            low, high = checks.NUMBERS[names[1]]
            values = [value for value in values if low <= value <= high]
            if values:
                mean = sum(values) / len(values)
                readings[names[0]] = round(mean, 2) if kind else round(mean)
                readings[names[1]] = max(values)

    def _new(self, kind: int) -> Sequence[float]:
        """The samples since the last time; the first time only the time is taken."""
        seen_us, buffer = self._seen_us[kind], self._buffers.get(kind)
        if seen_us is None or buffer is None:
            _, found = self._lib.nvmlDeviceGetSamples(self._handle, kind, seen_us or 0)
            self._seen_us[kind] = max((one.timeStamp for one in found), default=seen_us)
            size = SAMPLE_BYTES * max(COUNT_LEAST, 2 * len(found))
            self._buffers[kind] = ctypes.create_string_buffer(size)
            return []
        value_type, count = ctypes.c_int(), ctypes.c_uint(len(buffer) // SAMPLE_BYTES)
        since = ctypes.c_ulonglong(seen_us)
        ask = self._lib.nvmlLib.nvmlDeviceGetSamples
        code = ask(self._handle, kind, since, ctypes.byref(value_type), ctypes.byref(count), buffer)
        if code != 0:
            if code == codes.INSUFFICIENT_SIZE:
                del self._buffers[kind]
            raise self._lib.NVMLError(code)
        raw = memoryview(buffer)[: SAMPLE_BYTES * count.value]
        new = list(SAMPLE[value_type.value].iter_unpack(raw))
        if new:
            self._seen_us[kind], self._dry[kind] = max(new)[0], 0
        return [value for _, value in new]

    def _is_dry(self, kind: int) -> None:
        self._dry[kind] += 1
        if self._dry[kind] >= DRY_MAX:
            self._dry[kind], self._seen_us[kind] = 0, None


def _outcome(lib: codes.Library, error: Exception) -> reading.Unsupported | reading.Failed | None:
    """None when there was nothing new, which is no failure."""
    if getattr(error, "value", None) in codes.NOTHING_NEW and isinstance(error, lib.NVMLError):
        return None
    return codes.of(lib, error)
