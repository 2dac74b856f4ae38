"""The processes on one device: who holds memory, and who computes.

NVML lists compute, graphics and MPS processes apart, by the host's pid; one that is in two
lists is one process of kind `mixed`. On a MIG parent each row belongs to an instance. The
shares come as samples since the last time seen, several for a pid. A driver returns junk
among them (pids of zero, thousands of percent): what cannot be true is left out and counted.
"""

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from edge_agent.core import checks, reading
from edge_agent.sources.nvml import codes
from wire.sample import ProcessKind

LISTS: Final[Mapping[str, ProcessKind]] = {
    "nvmlDeviceGetComputeRunningProcesses": "compute",
    "nvmlDeviceGetGraphicsRunningProcesses": "graphics",
    "nvmlDeviceGetMPSComputeRunningProcesses": "compute",
}
NO_INSTANCE: Final = 0xFFFFFFFF
SHARES: Final = {
    "sm_utilization_percent": "smUtil",
    "memory_utilization_percent": "memUtil",
    "encoder_utilization_percent": "encUtil",
    "decoder_utilization_percent": "decUtil",
}

Key = tuple[int, int, int]
Instances = Mapping[tuple[int, int], str]
"""MIG UUIDs by GPU instance and compute instance."""


class Processes:
    """The process lists of one device."""

    def __init__(self, lib: codes.Library, handle: Any) -> None:
        self._lib = lib
        self._handle = handle
        self._lists: dict[str, ProcessKind] = dict(LISTS)
        self._has_shares = True
        self._seen_us = 0
        self._count = ctypes.c_uint()

    def read(self, instances: Instances) -> tuple[tuple[reading.RawProcess, ...], int]:
        """The processes, and how many records were junk."""
        found: dict[Key, reading.RawProcess] = {}
        for function, kind in tuple(self._lists.items()):
            for one in self._rows(function):
                where = (one.gpuInstanceId, one.computeInstanceId)
                key = (one.pid, *where)
                before = found.get(key)
                found[key] = reading.RawProcess(
                    pid=one.pid,
                    kind=kind if before is None or before.kind == kind else "mixed",
                    mig_uuid=None if where[0] == NO_INSTANCE else instances.get(where),
                    memory_used_bytes=one.usedGpuMemory,
                )
        if not found or not self._has_shares:
            return tuple(found.values()), 0
        shares, junk_count = self._shares()
        kept = (replace(one, **shares.get(one.pid, {})) for one in found.values())
        return tuple(kept), junk_count

    def forget_unsupported(self) -> None:
        """Another MIG mode: everything is worth a try again."""
        self._lists = dict(LISTS)
        self._has_shares = True

    def _rows(self, function: str) -> Iterable[Any]:
        """The rows of one list. Most lists are empty: that is asked first, and costs little."""
        probe = getattr(self._lib.nvmlLib, f"{function}_v3", None)
        self._count.value = 0
        if probe is not None and probe(self._handle, ctypes.byref(self._count), None) == 0:
            return ()
        try:
            rows: Iterable[Any] = getattr(self._lib, function)(self._handle)
        except Exception as error:  # noqa: BLE001 - garbage from a call can raise anything
            if isinstance(codes.of(self._lib, error), reading.Unsupported):
                del self._lists[function]
            return ()
        return rows

    def _shares(self) -> tuple[dict[int, dict[str, Any]], int]:
        """By pid the newest share of each kind; how many records were junk."""
        try:
            rows = self._lib.nvmlDeviceGetProcessUtilization(self._handle, self._seen_us)
        except Exception as error:  # noqa: BLE001 - as above
            if isinstance(codes.of(self._lib, error), reading.Unsupported):
                self._has_shares = False
            return {}, 0
        newest: dict[int, tuple[int, dict[str, Any]]] = {}
        junk_count = 0
        for row in rows:
            shares = {name: getattr(row, field) for name, field in SHARES.items()}
            if checks.pid(row.pid) is None or not _are_shares(shares.values()):
                junk_count += 1
                continue
            if row.pid not in newest or newest[row.pid][0] <= row.timeStamp:
                newest[row.pid] = (row.timeStamp, shares)
        self._seen_us = max((at for at, _ in newest.values()), default=self._seen_us)
        return {pid: shares for pid, (_, shares) in newest.items()}, junk_count


_is_share: Final[Callable[[Any], Any]] = checks.PROCESS["sm_utilization_percent"]


def _are_shares(values: Iterable[Any]) -> bool:
    return all(_is_share(value) is not None for value in values)
