"""What the driver sampled between two ticks: mean and maximum of load and power.

The driver keeps samples of its own several times a second. Asked for those since the last
one seen, they make a slow tick still tell of a short burst. A buffer of the time before
the first tick is passed over.
"""

from collections.abc import Sequence
from typing import Any, Final

from edge_agent.core import checks, reading
from edge_agent.sources.nvml import codes

KINDS: Final = (
    (1, "utilization_mean_percent", "utilization_max_percent"),
    (0, "power_mean_mw", "power_max_mw"),
)
UINT: Final = 1


class Samples:
    """The driver's sample buffers of one device."""

    def __init__(self, lib: codes.Library, handle: Any) -> None:
        self._lib = lib
        self._handle = handle
        self._seen_us: dict[int, int | None] = {kind: None for kind, *_ in KINDS}
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
                continue
            values = [value for value in values if checks.GPU[names[1]](value) is not None]
            if values:
                mean = sum(values) / len(values)
                readings[names[0]] = round(mean, 2) if kind == UINT else round(mean)
                readings[names[1]] = max(values)

    def _new(self, kind: int) -> Sequence[float]:
        seen_us = self._seen_us[kind]
        value_type, found = self._lib.nvmlDeviceGetSamples(self._handle, kind, seen_us or 0)
        field = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}.get(
            value_type, "uiVal"
        )
        new = [one for one in found if one.timeStamp > (seen_us or 0)]
        if new:
            self._seen_us[kind] = max(one.timeStamp for one in new)
        return [] if seen_us is None else [getattr(one.sampleValue, field) for one in new]


def _outcome(lib: codes.Library, error: Exception) -> reading.Unsupported | reading.Failed | None:
    """None when there was nothing new, which is no failure."""
    if getattr(error, "value", None) in codes.NOTHING_NEW and isinstance(error, lib.NVMLError):
        return None
    return codes.of(lib, error)
