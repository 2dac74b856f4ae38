"""MIG instances of one device, by their own UUIDs.

The layout is asked with the slow quantities: making an instance takes an administrator.
Slots have holes. An instance's profile is the end of its name, as NVIDIA writes it.
"""

from typing import Any, Final

from msgspec.structs import replace

from edge_agent.core import reading
from edge_agent.sources.nvml import codes, processes

MARK: Final = " MIG "
SLOTS_MAX: Final = 64


class Mig:
    """The instances of one device."""

    def __init__(self, lib: codes.Library, handle: Any) -> None:
        self._lib = lib
        self._handle = handle
        self._found: tuple[tuple[Any, reading.RawMig], ...] = ()

    @property
    def instances(self) -> processes.Instances:
        """UUIDs by GPU instance and compute instance."""
        return {(one.gpu_instance_id, one.compute_instance_id): one.uuid for _, one in self._found}

    def look(self, *, enabled: bool) -> None:
        """Which instances there are now."""
        count = codes.tried(self._lib, "nvmlDeviceGetMaxMigDeviceCount", self._handle)
        handles = [
            codes.tried(self._lib, "nvmlDeviceGetMigDeviceHandleByIndex", self._handle, index)
            for index in range(min(count or 0, SLOTS_MAX) if enabled else 0)
        ]
        looked = [(handle, self._instance(handle)) for handle in handles if handle is not None]
        self._found = tuple((handle, one) for handle, one in looked if one is not None)

    def read(self) -> tuple[reading.RawMig, ...]:
        """The instances with their memory now."""
        return tuple(self._with_memory(handle, one) for handle, one in self._found)

    def _instance(self, handle: Any) -> reading.RawMig | None:
        uuid = codes.text(codes.tried(self._lib, "nvmlDeviceGetUUID", handle))
        if not uuid:
            return None
        name = codes.text(codes.tried(self._lib, "nvmlDeviceGetName", handle)) or ""
        attributes = codes.tried(self._lib, "nvmlDeviceGetAttributes", handle)
        return reading.RawMig(
            uuid=uuid,
            profile=name.partition(MARK)[2] or None,
            gpu_instance_id=codes.tried(self._lib, "nvmlDeviceGetGpuInstanceId", handle),
            compute_instance_id=codes.tried(self._lib, "nvmlDeviceGetComputeInstanceId", handle),
            multiprocessor_count=getattr(attributes, "multiprocessorCount", None),
        )

    def _with_memory(self, handle: Any, one: reading.RawMig) -> reading.RawMig:
        memory = codes.tried(self._lib, "nvmlDeviceGetMemoryInfo", handle)
        if memory is None:
            return one
        return replace(
            one,
            memory_total_bytes=memory.total,
            memory_used_bytes=memory.used,
            memory_free_bytes=memory.free,
        )
