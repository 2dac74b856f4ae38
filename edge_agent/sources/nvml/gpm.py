"""Performance counters of Hopper and later (GPM): how much of the chip really works.

A metric is what happened between two samples, at least 100 ms apart; so each tick takes one
and compares it with that of the tick before.
"""

import ctypes
import struct
from typing import Any, Final

from edge_agent.core import reading
from edge_agent.sources.nvml import codes

METRICS: Final = {
    1: "graphics_active_percent",
    2: "sm_active_percent",
    3: "sm_occupancy_percent",
    5: "tensor_active_percent",
    10: "memory_active_percent",
    11: "fp64_active_percent",
    12: "fp32_active_percent",
    13: "fp16_active_percent",
}
METRIC: Final = struct.Struct("=4xId24x")
"""Of one nvmlGpmMetric_t (its id before it, texts after it): return code, value."""
VERSION: Final = 1
APART_S: Final = 0.1


class Gpm:
    """The counters of one device; `allocate` first, `free` when the library is let go."""

    def __init__(self, lib: codes.Library, handle: Any) -> None:
        self._lib = lib
        self._handle = handle
        self._samples: list[Any] = []
        self._at_s: float | None = None
        self._request: Any = None
        support = codes.tried(lib, "nvmlGpmQueryDeviceSupport", handle)
        self.is_supported = bool(getattr(support, "isSupportedDevice", False))
        if self.is_supported:
            self._allocate()

    def read(self, readings: dict[str, Any], now_s: float) -> None:
        """Add what happened since the tick before."""
        if not self.is_supported:
            readings.update(dict.fromkeys(METRICS.values(), reading.UNSUPPORTED))
            return
        if self._at_s is not None and now_s - self._at_s < APART_S:
            return
        try:
            before, now = self._samples
            self._check(self._lib.nvmlLib.nvmlGpmSampleGet(self._handle, now))
            was_sampled = self._at_s is not None
            self._samples, self._at_s = [now, before], now_s
            if was_sampled:
                self._compare(before, now, readings)
        except Exception as error:  # noqa: BLE001 - garbage from a call can raise anything
            self._at_s = None
            found = codes.of(self._lib, error)
            self.is_supported = not isinstance(found, reading.Unsupported)
            readings.update(dict.fromkeys(METRICS.values(), found))

    def free(self) -> None:
        """Give the samples back."""
        for sample in self._samples:
            codes.tried(self._lib, "nvmlGpmSampleFree", sample)
        self._samples, self.is_supported = [], False

    def _allocate(self) -> None:
        self._samples = [codes.tried(self._lib, "nvmlGpmSampleAlloc") for _ in range(2)]
        if None in self._samples:
            self._samples = [sample for sample in self._samples if sample is not None]
            self.free()
            return
        self._request = self._lib.c_nvmlGpmMetricsGet_t()
        self._request.version = VERSION
        self._request.numMetrics = len(METRICS)
        for place, metric in enumerate(METRICS):
            self._request.metrics[place].metricId = metric

    def _check(self, code: int) -> None:
        if code != 0:
            raise self._lib.NVMLError(code)

    def _compare(self, before: Any, now: Any, readings: dict[str, Any]) -> None:
        request = self._request
        request.sample1, request.sample2 = before, now
        self._check(self._lib.nvmlLib.nvmlGpmMetricsGet(ctypes.byref(request)))
        raw = ctypes.string_at(ctypes.addressof(request.metrics), METRIC.size * len(METRICS))
        for (code, value), name in zip(METRIC.iter_unpack(raw), METRICS.values(), strict=True):
            if code == 0:
                readings[name] = round(value, 2)
            else:
                readings[name] = codes.outcome(code, str(self._lib.NVMLError(code)))
