"""NVIDIA GPUs through NVML (package nvidia-ml-py, module `pynvml`).

`FIELDS` is the table: which call gives which readings. Every call is tried on its own,
and what comes back is one of three: a value, "unsupported" (remembered for this GPU, so
that it is asked once and listed in the birth), or "failed this time" with NVML's own
words. A GPU that is lost is reported so and the others go on. GPUs are known by UUID;
the index serves only to find them.

NVML's exceptions and structures end here. Without the library, the driver or a device
the source says which of them is missing; it can be asked again at any time.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import pynvml  # type: ignore[import-untyped]  # it has no types
from msgspec import Struct

from edge_agent.core import reading
from edge_agent.errors import SourceError
from wire.sample import GpuInventory

NOT_SUPPORTED: Final = frozenset({3, 13, 24, 25, 29})  # also: no such function, wrong version
NO_PERMISSION: Final = 4
NOT_FOUND: Final = 6
TIMEOUT: Final = 10
GPU_IS_LOST: Final = 15
LIBRARY_GONE: Final = frozenset({1, 9, 12, 18})  # uninitialised, no driver, no library, mismatch
LIB_RM_VERSION_MISMATCH: Final = 18

XID_EVENT: Final = 0x8
XIDS_PER_READ_MAX: Final = 64
LOOK_AGAIN_S: Final = 60.0

THROTTLE_REASONS: Final[Mapping[int, str]] = {
    0x1: "gpu-idle",
    0x2: "applications-clocks-setting",
    0x4: "sw-power-cap",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "sw-thermal-slowdown",
    0x40: "hw-thermal-slowdown",
    0x80: "hw-power-brake-slowdown",
    0x100: "display-clock-setting",
}
RECOVERY_ACTIONS: Final[Mapping[int, str]] = {
    0: "none",
    1: "gpu-reset",
    2: "node-reboot",
    3: "drain-p2p",
    4: "drain-and-reset",
    6: "gpu-reset",
    7: "node-reboot",
}
FI_RECOVERY_ACTION: Final = 230

Library = Any
"""What of `pynvml` is used: its functions by name, and `NVMLError` with `.value`."""


class Field(Struct, frozen=True):
    """One call and the readings it gives."""

    names: tuple[str, ...]
    call: Callable[[Library, Any], tuple[Any, ...]]


def _utilization(lib: Library, handle: Any) -> tuple[Any, ...]:
    rates = lib.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu, rates.memory


def _temperature(lib: Library, handle: Any) -> tuple[Any, ...]:
    return (lib.nvmlDeviceGetTemperature(handle, 0),)


def _slowdown_temperature(lib: Library, handle: Any) -> tuple[Any, ...]:
    return (lib.nvmlDeviceGetTemperatureThreshold(handle, 1),)


def _sm_clock(lib: Library, handle: Any) -> tuple[Any, ...]:
    return (lib.nvmlDeviceGetClockInfo(handle, 1),)


def _memory_clock(lib: Library, handle: Any) -> tuple[Any, ...]:
    return (lib.nvmlDeviceGetClockInfo(handle, 2),)


def _throttle_reasons(lib: Library, handle: Any) -> tuple[Any, ...]:
    bits = int(lib.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return (tuple(name for bit, name in THROTTLE_REASONS.items() if bits & bit),)


def _ecc(lib: Library, handle: Any) -> tuple[Any, ...]:
    return (lib.nvmlDeviceGetTotalEccErrors(handle, 1, 0),)  # uncorrected, since driver load


def _recovery_action(lib: Library, handle: Any) -> tuple[Any, ...]:
    found = lib.nvmlDeviceGetFieldValues(handle, [FI_RECOVERY_ACTION])[0]
    if found.nvmlReturn != 0:
        raise lib.NVMLError(found.nvmlReturn)
    return (RECOVERY_ACTIONS.get(int(found.value.uiVal), "node-reboot"),)


def _mig(lib: Library, handle: Any) -> tuple[Any, ...]:
    return (lib.nvmlDeviceGetMigMode(handle)[0] == 1,)


FIELDS: Final[tuple[Field, ...]] = (
    Field(("mig_enabled",), _mig),
    Field(("utilization_percent", "memory_utilization_percent"), _utilization),
    Field(("power_mw",), lambda lib, handle: (lib.nvmlDeviceGetPowerUsage(handle),)),
    Field(("power_limit_mw",), lambda lib, handle: (lib.nvmlDeviceGetEnforcedPowerLimit(handle),)),
    Field(("energy_mj",), lambda lib, handle: (lib.nvmlDeviceGetTotalEnergyConsumption(handle),)),
    Field(("temperature_c",), _temperature),
    Field(("temperature_slowdown_c",), _slowdown_temperature),
    Field(("sm_clock_mhz",), _sm_clock),
    Field(("memory_clock_mhz",), _memory_clock),
    Field(("throttle_reasons",), _throttle_reasons),
    Field(("ecc_uncorrected_count",), _ecc),
    Field(("recovery_action",), _recovery_action),
)


class Device:
    """A GPU that NVML showed us: what does not change, and what it cannot tell."""

    def __init__(self, handle: Any, inventory: GpuInventory) -> None:
        self.handle = handle
        self.inventory = inventory
        self.unsupported: set[str] = set()
        self.has_memory_v2 = True
        self.mig_enabled: object = None


class GpuLostError(Exception):
    """NVML says that this GPU is off the bus; never leaves this module."""


class Nvml:
    """The NVML source."""

    name = "nvml"
    finished = False

    def __init__(self, lib: Library = pynvml, clock: Callable[[], float] = time.monotonic) -> None:
        self._lib = lib
        self._clock = clock
        self._devices: dict[str, Device] = {}
        self._driver_version: str | None = None
        self._is_open = False
        self._events: Any = None
        self._looked_s = 0.0

    def available(self) -> reading.Availability:
        """Open NVML and look for devices; says what is missing."""
        self.close()
        try:
            self._lib.nvmlInit()
            self._is_open = True
            self._driver_version = _text(self._try(self._lib.nvmlSystemGetDriverVersion))
            self._find_devices()
        except self._lib.NVMLError as error:
            return reading.Availability(
                state=_missing(error.value), detail=str(error), driver_version=self._driver_version
            )
        if not self._devices:
            return reading.Availability(
                state="no device",
                detail="the driver answers and has no GPU",
                driver_version=self._driver_version,
            )
        return reading.Availability(
            state="yes",
            detail=f"{len(self._devices)} GPUs",
            driver_version=self._driver_version,
            gpus=tuple(device.inventory for device in self._devices.values()),
        )

    def read(self) -> tuple[reading.Observation, ...]:
        """All GPUs, and the XIDs since the last read."""
        if not self._is_open:
            raise SourceError("NVML is not open")
        gpus = tuple(self._read_device(device) for device in self._devices.values())
        is_lost = any(gpu.state == "lost" for gpu in gpus)
        if is_lost and self._clock() - self._looked_s >= LOOK_AGAIN_S:
            self._look_again()
        return (reading.Observation(gpus=gpus, events=self._xids()),)

    def close(self) -> None:
        """Let NVML go; opening it again also finds what has changed."""
        if self._events is not None:
            self._try(self._lib.nvmlEventSetFree, self._events)
            self._events = None
        if self._is_open:
            self._is_open = False
            self._try(self._lib.nvmlShutdown)

    def _look_again(self) -> None:
        """Open NVML anew, which is how a GPU that was reset comes back."""
        state = self.available().state
        if state != "yes":
            raise SourceError(f"NVML opened anew says: {state}")

    def _find_devices(self) -> None:
        """Fresh handles for the GPUs that answer; those that do not stay, as lost."""
        self._looked_s = self._clock()
        for index in range(self._lib.nvmlDeviceGetCount()):
            try:
                handle = self._lib.nvmlDeviceGetHandleByIndex(index)
                uuid = _text(self._lib.nvmlDeviceGetUUID(handle))
            except self._lib.NVMLError as error:
                if error.value in LIBRARY_GONE:
                    raise
                continue
            if uuid is not None:
                self._devices[uuid] = Device(handle, self._inventory(handle, uuid))
        self._listen()

    def _inventory(self, handle: Any, uuid: str) -> GpuInventory:
        pci = self._try(self._lib.nvmlDeviceGetPciInfo, handle)
        memory = self._try(self._lib.nvmlDeviceGetMemoryInfo, handle)
        return GpuInventory(
            uuid=uuid,
            vendor="nvidia",
            name=_text(self._try(self._lib.nvmlDeviceGetName, handle)),
            serial=_text(self._try(self._lib.nvmlDeviceGetSerial, handle)),
            pci_bus_id=_text(getattr(pci, "busId", None)),
            memory_total_bytes=getattr(memory, "total", None),
        )

    def _read_device(self, device: Device) -> reading.RawGpu:
        uuid = device.inventory.uuid
        readings: dict[str, Any] = {}
        try:
            for field in FIELDS:
                self._read_field(device, field, readings)
            mig_enabled = readings["mig_enabled"]
            if device.mig_enabled not in (None, mig_enabled):
                device.unsupported.clear()
            device.mig_enabled = mig_enabled
            self._read_memory(device, readings)
            processes = self._processes(device)
        except GpuLostError:
            return reading.RawGpu(uuid=uuid, state="lost")
        return reading.RawGpu(uuid=uuid, readings=readings, processes=processes)

    def _read_field(self, device: Device, field: Field, readings: dict[str, Any]) -> None:
        if field.names[0] in device.unsupported:
            readings.update(dict.fromkeys(field.names, reading.UNSUPPORTED))
            return
        try:
            readings.update(zip(field.names, field.call(self._lib, device.handle), strict=True))
        except self._lib.NVMLError as error:
            outcome = self._outcome(error)
            if isinstance(outcome, reading.Unsupported):
                device.unsupported.update(field.names)
            readings.update(dict.fromkeys(field.names, outcome))

    def _outcome(self, error: Any) -> reading.Unsupported | reading.Failed:
        """What an error of a call means for its reading; raises when it means more."""
        if error.value in NOT_SUPPORTED:
            return reading.UNSUPPORTED
        if error.value == GPU_IS_LOST:
            raise GpuLostError
        if error.value in LIBRARY_GONE:
            raise SourceError(f"NVML: {error}") from error
        return reading.Failed(str(error))

    def _read_memory(self, device: Device, readings: dict[str, Any]) -> None:
        """Version 2 tells reserved memory apart; without it `used` includes the reserved."""
        names = ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes")
        memory: Any = None
        if device.has_memory_v2:
            memory = self._try_device(
                self._lib.nvmlDeviceGetMemoryInfo, device.handle, self._lib.nvmlMemory_v2
            )
        reserved: Any = memory.reserved if memory is not None else reading.UNSUPPORTED
        if memory is None:
            first = Field(names, _memory_v1)
            self._read_field(device, first, readings)
            device.has_memory_v2 = device.has_memory_v2 and not isinstance(readings[names[0]], int)
        else:
            readings.update(zip(names, (memory.total, memory.used, memory.free), strict=True))
        readings["memory_reserved_bytes"] = reserved

    def _processes(self, device: Device) -> tuple[reading.RawProcess, ...]:
        found: dict[int, reading.RawProcess] = {}
        for call in (
            self._lib.nvmlDeviceGetComputeRunningProcesses,
            self._lib.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            for one in self._try_device(call, device.handle) or ():
                found[one.pid] = reading.RawProcess(
                    pid=one.pid, memory_used_bytes=one.usedGpuMemory
                )
        return tuple(found.values())

    def _listen(self) -> None:
        """Ask for XIDs of every GPU that can tell them."""
        self._events = self._try(self._lib.nvmlEventSetCreate)
        if self._events is not None:
            for device in self._devices.values():
                self._try(
                    self._lib.nvmlDeviceRegisterEvents, device.handle, XID_EVENT, self._events
                )

    def _xids(self) -> tuple[reading.RawEvent, ...]:
        found: list[reading.RawEvent] = []
        while self._events is not None and len(found) < XIDS_PER_READ_MAX:
            event = self._try(self._lib.nvmlEventSetWait_v2, self._events, 0)
            if event is None:
                break
            if event.eventType == XID_EVENT:
                uuid = _text(self._try(self._lib.nvmlDeviceGetUUID, event.device))
                found.append(reading.RawEvent(event="xid", gpu_uuid=uuid, xid=int(event.eventData)))
        return tuple(found)

    def _try(self, call: Callable[..., Any], *args: Any) -> Any:
        """The value, or None when it cannot be had."""
        try:
            return call(*args)
        except self._lib.NVMLError:
            return None

    def _try_device(self, call: Callable[..., Any], *args: Any) -> Any:
        """As `_try`, but a GPU or a library that is gone is told."""
        try:
            return call(*args)
        except self._lib.NVMLError as error:
            self._outcome(error)
            return None


def _memory_v1(lib: Library, handle: Any) -> tuple[Any, ...]:
    memory = lib.nvmlDeviceGetMemoryInfo(handle)
    return memory.total, memory.used, memory.free


def _missing(code: int) -> reading.AvailabilityState:
    if code == NO_PERMISSION:
        return "no permission"
    if code == LIB_RM_VERSION_MISMATCH:
        return "failed"
    return "no library" if code in LIBRARY_GONE else "failed"


def _text(value: object) -> str | None:
    """The same text whether the binding gives bytes or str."""
    if value is None:
        return None
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
