"""The processes on one device: who holds memory, and who computes.

NVML lists compute, graphics and MPS processes apart, by the host's pid; one that is in two
lists is one process of kind `mixed`. On a MIG parent each row belongs to an instance. The
shares come as samples since the last time seen, several for a pid. A driver returns junk
among them (pids of zero, thousands of percent): what cannot be true is left out and counted.
"""

import ctypes
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from edge_agent.core import checks, reading
from edge_agent.sources.nvml import codes, rows
from wire.sample import ProcessKind

LISTS: Final[Mapping[str, ProcessKind]] = {
    "nvmlDeviceGetComputeRunningProcesses": "compute",
    "nvmlDeviceGetGraphicsRunningProcesses": "graphics",
    "nvmlDeviceGetMPSComputeRunningProcesses": "compute",
}
NO_INSTANCE: Final = 0xFFFFFFFF
NOT_KNOWN: Final = 2**64 - 1
SHARE_MAX: Final = 100
SHARES: Final = (
    "sm_utilization_percent",
    "memory_utilization_percent",
    "encoder_utilization_percent",
    "decoder_utilization_percent",
)
PROCESS: Final = struct.Struct("=I4xQII")
"""One nvmlProcessInfo_t (v3): pid, memory in bytes, GPU instance, compute instance."""
SHARE: Final = struct.Struct("=I4xQIIII")
"""One nvmlProcessUtilizationSample_t: pid, time stamp in us, and `SHARES`."""

Row = tuple[Any, ...]
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
        self._lists_memory = rows.Rows(lib, PROCESS)
        self._shares_memory = rows.Rows(lib, SHARE)

    def read(self, instances: Instances) -> tuple[tuple[reading.RawProcess, ...], int]:
        """The processes, and how many records were junk."""
        found: dict[Key, reading.RawProcess] = {}
        for function, kind in tuple(self._lists.items()):
            for pid, memory_bytes, *where in self._rows(function):
                key = (pid, *where)
                before = found.get(key)
                found[key] = reading.RawProcess(
                    pid=pid,
                    kind=kind if before is None or before.kind == kind else "mixed",
                    mig_uuid=None if where[0] == NO_INSTANCE else instances.get(tuple(where)),
                    memory_used_bytes=None if memory_bytes == NOT_KNOWN else memory_bytes,
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

    def _rows(self, function: str) -> Iterable[Row]:
        """The rows of one list: pid, memory, GPU instance, compute instance."""
        try:
            return self._lists_memory.ask(
                lambda memory, count: getattr(self._lib.nvmlLib, f"{function}_v3")(
                    self._handle, count, memory
                )
            )
        except AttributeError:  # an older driver: the binding knows the older forms
            return self._rows_by_binding(function)
        except Exception as error:  # noqa: BLE001 - garbage from a call can raise anything
            self._refused(function, error)
            return ()

    def _rows_by_binding(self, function: str) -> Iterable[Row]:
        try:
            found = getattr(self._lib, function)(self._handle)
        except Exception as error:  # noqa: BLE001 - as above
            self._refused(function, error)
            return ()
        return [
            (row.pid, row.usedGpuMemory, row.gpuInstanceId, row.computeInstanceId) for row in found
        ]

    def _refused(self, function: str, error: Exception) -> None:
        if isinstance(codes.of(self._lib, error), reading.Unsupported):
            del self._lists[function]

    def _shares(self) -> tuple[dict[int, dict[str, Any]], int]:
        """By pid the newest share of each kind; how many records were junk."""
        since = ctypes.c_ulonglong(self._seen_us)
        try:
            found = self._shares_memory.ask(
                lambda memory, count: self._lib.nvmlLib.nvmlDeviceGetProcessUtilization(
                    self._handle, memory, count, since
                )
            )
        except Exception as error:  # noqa: BLE001 - as above
            if isinstance(codes.of(self._lib, error), reading.Unsupported):
                self._has_shares = False
            return {}, 0
        newest: dict[int, tuple[int, dict[str, Any]]] = {}
        junk_count = 0
        for pid, at_us, *shares in found:
            if checks.pid(pid) is None or max(shares) > SHARE_MAX:
                junk_count += 1
            elif pid not in newest or newest[pid][0] <= at_us:
                newest[pid] = (at_us, dict(zip(SHARES, shares, strict=True)))
        self._seen_us = max((at for at, _ in newest.values()), default=self._seen_us)
        return {pid: shares for pid, (_, shares) in newest.items()}, junk_count
