"""The NVML source: opens the library, finds the devices, reads them.

Each device is read on its own, so that one that fails, hangs or is lost costs only itself.
GPUs are known by UUID; the index serves only to find them. The library is opened anew when
the number of devices changes, and once a minute while one is lost, which is how a GPU that
was reset comes back.

Two states want a new process: a library that is not that of the loaded driver, and devices
that all answered before and all refuse now (a container that lost its device files).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pynvml  # type: ignore[import-untyped]  # it has no types
from msgspec.structs import replace

from edge_agent import config
from edge_agent.core import reading
from edge_agent.errors import AccessLostError, DriverMismatchError, SourceError
from edge_agent.sources.nvml import codes, driver, events, inventory, sleep, watch
from edge_agent.sources.nvml.gpu import Gpu

LOOK_AGAIN_S: Final = 60.0
OPEN_LIMIT_S: Final = 10.0
EVENTS_LIMIT_S: Final = events.WAIT_MS / 1000 + 2.0
EVENTS_PAUSE_S: Final = 0.1
LIBRARY: Final = "library"
DEFAULTS: Final = config.Nvml()
NEED_NEW_PROCESS: Final[Mapping[str, type[SourceError]]] = {
    error.state: error for error in (DriverMismatchError, AccessLostError)
}


class Nvml:
    """The NVML source; a `Herald` of XIDs, a `Sleeper`, and it watches itself."""

    name = "nvml"
    finished = False

    def __init__(
        self,
        lib: codes.Library = pynvml,
        *,
        settings: config.Nvml = DEFAULTS,
        owners: reading.Owners = tuple,
        wake: Callable[[], None] = lambda: None,
        sys_root: str = "/sys",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lib = lib
        self._settings = settings
        self._owners = owners
        self._sys_root = sys_root
        self._clock = clock
        self._watch = watch.Watch(settings.call_limit_ms / 1000)
        self._events = events.Events(lib, wake)
        self._gpus: dict[str, Gpu] = {}
        self._sleep = sleep.Sleep(sys_root, ())
        self._driver = driver.Driver(lib, sys_root)
        self._was_read = False
        self._wants_look = False
        self._looked_s = 0.0
        self._counted_s = 0.0
        self._pending: list[reading.RawEvent] = []

    @property
    def patience_ms(self) -> int:
        """How long a read may take: it watches its own calls."""
        return 4 * self._settings.call_limit_ms

    def available(self) -> reading.Availability:
        """Open NVML and look for devices; says what is missing.

        Under a call that has not come back the library cannot be let go.
        """
        hung = self._watch.hung - {LIBRARY}
        if hung:
            return self._driver.availability("access lost", f"no answer from {sorted(hung)}")
        found = self._watch.run({LIBRARY: self._open}, OPEN_LIMIT_S)[LIBRARY]
        if isinstance(found, watch.Hung):
            return self._driver.availability("failed", f"no answer for {OPEN_LIMIT_S:.0f} s")
        if isinstance(found, self._lib.NVMLError):
            return self._driver.missing(found, was_read=self._was_read)
        if isinstance(found, SourceError):
            return self._driver.availability("failed", str(found))
        if isinstance(found, Exception):
            raise found
        return replace(
            self._driver.found(len(self._gpus)),
            gpus=tuple(gpu.inventory for gpu in self._gpus.values()),
        )

    def read(self) -> tuple[reading.Observation, ...]:
        """All GPUs, and the XIDs since the last read."""
        if not self._driver.is_open:
            raise SourceError("NVML is not open")
        self._look_again_if_due()
        now_s = self._clock()
        asleep = {
            uuid
            for uuid in self._gpus
            if self._settings.let_sleep and self._sleep.is_suspended(uuid)
        }
        jobs = {
            uuid: gpu.reader(now_s, self._slow_due(gpu, number, now_s))
            for number, (uuid, gpu) in enumerate(self._gpus.items())
            if uuid not in asleep and not gpu.is_lost
        }
        outcomes = self._watch.run(jobs)
        found = tuple(self._raw(uuid, uuid in asleep, outcomes) for uuid in self._gpus)
        self._check_access(outcomes)
        happened = (*self._take_pending(), *self._events.news())
        return (reading.Observation(gpus=found, events=happened),)

    def news(self) -> Sequence[reading.RawEvent]:
        """XIDs since they were last asked for."""
        return self._events.news()

    def stirs(self) -> bool:
        """Whether a GPU is awake; asks sysfs only."""
        return not all(self._sleep.is_suspended(uuid) for uuid in self._gpus)

    def close(self) -> None:
        """Let NVML go, without waiting for it."""
        self._events.stop()
        is_free = self._driver.is_open and not self._watch.hung
        self._watch.close({LIBRARY: self._shut} if is_free else None)

    def _open(self) -> None:
        """On the worker's thread: init, find, listen.

        Who is not found any more is missed by those who compare; where none is found and devices
        are there that do not answer, all stay, as lost.
        """
        self._shut()
        changed = self._driver.open()
        if changed is not None:
            self._pending.append(changed)
        self._looked_s = self._counted_s = self._clock()
        self._wants_look = False
        handles = self._driver.devices()
        if not handles and self._driver.may_grow:
            for gpu in self._gpus.values():
                gpu.is_lost = True
            return
        self._gpus = {
            uuid: Gpu(self._lib, handle, inventory.look(self._lib, handle, uuid))
            for uuid, handle in handles.items()
        }
        bus_ids = [(uuid, gpu.inventory.pci_bus_id) for uuid, gpu in self._gpus.items()]
        self._sleep = sleep.Sleep(self._sys_root, bus_ids)
        self._events.listen(handles)

    def _shut(self) -> None:
        self._events.stop()
        if not self._events.has_ended(EVENTS_LIMIT_S):
            raise SourceError("NVML: the wait for events does not come back")
        for gpu in self._gpus.values():
            gpu.free()
        self._driver.shut()

    def _look_again_if_due(self) -> None:
        """Open anew when a GPU is lost, or when there are more or fewer than there were."""
        now_s = self._clock()
        if self._driver.may_grow or any(gpu.is_lost for gpu in self._gpus.values()):
            self._wants_look = self._wants_look or now_s - self._looked_s >= LOOK_AGAIN_S
        elif now_s - self._counted_s >= self._settings.slow_interval_ms / 1000:
            self._counted_s = now_s
            counted = self._watch.run({LIBRARY: self._lib.nvmlDeviceGetCount})[LIBRARY]
            is_other = isinstance(counted, int) and counted != self._driver.count
            self._wants_look = self._wants_look or is_other
        if not self._wants_look or self._watch.hung:
            return
        self._events.stop()
        if not self._events.has_ended(EVENTS_PAUSE_S):  # in some tick to come
            return
        found = self.available()
        if found.state in NEED_NEW_PROCESS:
            raise NEED_NEW_PROCESS[found.state](found.detail)
        if found.state != "yes":
            raise SourceError(f"NVML opened anew says: {found.state}: {found.detail}")

    def _slow_due(self, gpu: Gpu, number: int, now_s: float) -> bool:
        """Whether this tick asks the slow quantities, too; the GPUs take turns."""
        if now_s < gpu.slow_due_s:
            return False
        interval_s = self._settings.slow_interval_ms / 1000
        is_first = gpu.slow_due_s == 0.0
        turn_s = interval_s * (1 + number % 16) / 16 if is_first else interval_s
        gpu.slow_due_s = now_s + turn_s
        return True

    def _raw(self, uuid: str, is_asleep: bool, outcomes: Mapping[str, Any]) -> reading.RawGpu:
        """One GPU's state and readings from the outcome of its job."""
        gpu = self._gpus[uuid]
        if gpu.is_lost:
            return reading.RawGpu(uuid=uuid, state="lost")
        if is_asleep:
            return reading.RawGpu(uuid=uuid, state="suspended")
        outcome = outcomes[uuid]
        if isinstance(outcome, watch.Hung):
            return reading.RawGpu(uuid=uuid, state="unresponsive")
        if isinstance(outcome, codes.GpuLostError):
            gpu.is_lost = True
            return reading.RawGpu(uuid=uuid, state="lost")
        if isinstance(outcome, Exception):
            raise outcome
        raw: reading.RawGpu = outcome
        return replace(raw, processes=self._owners(raw.processes)) if raw.processes else raw

    def _check_access(self, outcomes: Mapping[str, Any]) -> None:
        """Refused by every device that was asked, for everything it was asked."""
        asked = [uuid for uuid, one in outcomes.items() if isinstance(one, reading.RawGpu)]
        refusals = [self._gpus[uuid].refusal for uuid in asked]
        if asked and all(refusals):
            if self._was_read:
                raise AccessLostError(f"no device answers any more: {refusals[0]}")
            raise SourceError(f"no device answers: {refusals[0]}")
        self._was_read = self._was_read or bool(asked)

    def _take_pending(self) -> Sequence[reading.RawEvent]:
        pending, self._pending = self._pending, []
        return pending
