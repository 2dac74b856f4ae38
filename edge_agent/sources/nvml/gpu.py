"""One GPU with everything that is read of it in a tick."""

from collections.abc import Callable
from typing import Any

from edge_agent.core import reading
from edge_agent.sources.nvml import codes
from edge_agent.sources.nvml.device import Device
from edge_agent.sources.nvml.gpm import Gpm
from edge_agent.sources.nvml.mig import Mig
from edge_agent.sources.nvml.processes import Processes
from edge_agent.sources.nvml.samples import Samples
from wire.sample import GpuInventory


class Gpu:
    """A GPU as long as its handle is good; `slow_due_s` is when all of it is asked again."""

    def __init__(self, lib: codes.Library, handle: Any, inventory: GpuInventory) -> None:
        self.inventory = inventory
        self.is_lost = False
        self.slow_due_s = 0.0
        self._device = Device(lib, handle)
        self._samples = Samples(lib, handle)
        self._processes = Processes(lib, handle)
        self._mig = Mig(lib, handle)
        self._gpm = Gpm(lib, handle)

    @property
    def refusal(self) -> str:
        """Why it gave nothing at all the last time; empty when it gave something."""
        return self._device.refusal

    def reader(self, now_s: float, slow: bool) -> Callable[[], reading.RawGpu]:
        """The job that reads it, for the thread that calls."""
        return lambda: self._read(now_s, slow=slow)

    def free(self) -> None:
        """Give back what the library holds for it."""
        self._gpm.free()

    def _read(self, now_s: float, *, slow: bool) -> reading.RawGpu:
        readings = self._device.read(now_s, slow=slow)
        if slow:
            self._mig.look(enabled=readings.get("mig_enabled") is True)
            if self._device.mode_changed:
                self._processes.forget_unsupported()
        self._samples.read(readings)
        self._gpm.read(readings, now_s)
        processes, junk_count = self._processes.read(self._mig.instances)
        return reading.RawGpu(
            uuid=self.inventory.uuid,
            readings=readings,
            mig=self._mig.read(),
            processes=processes,
            invalid_count=junk_count,
        )
