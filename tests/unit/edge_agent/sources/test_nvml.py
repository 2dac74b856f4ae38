"""NVML through a fake of what is used of pynvml, and through the real module without a driver."""

# ruff: noqa: N802 - functions are named as the library names them

import ctypes
import struct
import threading
import types
from typing import ClassVar

import pynvml
import pytest

from edge_agent import errors
from edge_agent.core import normalize, reading
from edge_agent.sources.nvml import codes, events
from edge_agent.sources.nvml import source as nvml

SEVENS = {
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureThreshold",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetTotalEccErrors",
}


class NvmlFakeError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"error {value}")
        self.value = value


class FakeC:
    """The C side of a fake: the same answers, written to where the caller points."""

    def __init__(self, fake) -> None:
        self._fake = fake

    def __getattr__(self, symbol):
        lacking = {"nvmlDeviceGetTemperatureV", "nvmlDeviceGetMarginTemperature"}
        if symbol in lacking or symbol.endswith("_v3"):
            raise AttributeError(symbol)
        return lambda handle, *args: self._call(symbol, handle, args)

    def _call(self, symbol, handle, args):
        ints = [one for one in args if isinstance(one, int)]
        memory = [one for one in args if not isinstance(one, int)]
        name = symbol.removesuffix("_v2")
        try:
            if symbol == "nvmlDeviceGetFieldValues":
                ids = self._fake.asked
                answer = self._fake._call(name, handle, ids)
                ctypes.memmove(memory[0], answer, ctypes.sizeof(answer))
                return 0
            if name != symbol:
                ints.append(2)
            answer = self._fake._call(name, handle, *ints)
        except NvmlFakeError as error:
            return error.value
        except NotImplementedError:
            return 999
        words = answer if isinstance(answer, tuple | list) else [answer]
        if isinstance(answer, types.SimpleNamespace):
            words = list(vars(answer).values())
        if symbol == "nvmlDeviceGetMemoryInfo_v2":
            struct.pack_into(
                "=4x4xQQQQ",
                memory[0],
                0,
                *(answer.total, answer.reserved, answer.free, answer.used),
            )
        elif len(memory) == 1 and len(memory[0]) == 8 * len(words):
            struct.pack_into(f"={len(words)}Q", memory[0], 0, *words)
        elif len(memory) == 1:
            struct.pack_into(f"={len(words)}I", memory[0], 0, *words)
        return 0


class FakeNvml:
    """Two GPUs; `fail[(function, gpu)]` is the code that call raises, `fail[function]` for all."""

    NVMLError = NvmlFakeError
    made: ClassVar[list["FakeNvml"]] = []
    nvmlMemory_v2 = 0x02000028  # noqa: N815 - as the library names it

    def __init__(self, uuids=("GPU-A", "GPU-B"), text=str) -> None:
        self.uuids = list(uuids)
        self.fail = {}
        self.calls = []
        self.asked = ()
        self.nvmlLib = FakeC(self)
        self.text = text
        self.xids = []
        self.idle = threading.Event()
        FakeNvml.made.append(self)

    def __getattr__(self, name):
        if name.startswith("c_nvml"):
            return getattr(pynvml, name)
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *args: self._call(name, *args)

    def _call(self, name, *args):
        gpu = args[0] if args and isinstance(args[0], str) else None
        self.calls.append((name, gpu))
        for key in (name, (name, gpu), gpu):
            if key in self.fail:
                raise NvmlFakeError(self.fail[key])
        known = getattr(type(self), f"_{name}", None) or self.__dict__.get(f"_{name}")
        if known is None:
            return self._unknown(name)
        return known(self, *args) if f"_{name}" not in self.__dict__ else known(*args)

    def _unknown(self, name):
        if name in SEVENS:
            return 7
        if name in {"nvmlInit", "nvmlShutdown", "nvmlEventSetFree", "nvmlDeviceRegisterEvents"}:
            return None
        raise NvmlFakeError(3)

    def _nvmlEventSetCreate(self):
        return "set"

    def _nvmlDeviceGetCount(self):
        return len(self.uuids)

    def _nvmlDeviceGetHandleByIndex(self, index):
        return self.uuids[index]

    def _nvmlDeviceGetUUID(self, handle):
        return self.text(handle)

    def _nvmlDeviceGetName(self, handle):
        return self.text("NVIDIA L4")

    def _nvmlDeviceGetPciInfo(self, handle):
        return types.SimpleNamespace(busId=self.text("0000:01:00.0"))

    def _nvmlSystemGetDriverVersion(self):
        return self.text("570.1")

    def _nvmlDeviceGetUtilizationRates(self, handle):
        return types.SimpleNamespace(gpu=42, memory=13)

    def _nvmlDeviceGetMemoryInfo(self, handle, version=None):
        used = 8 if version else 912
        return types.SimpleNamespace(total=24_000, used=used, free=23_000, reserved=904)

    def _nvmlDeviceGetMigMode(self, handle):
        return [0, 0]

    def _nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return 0x44

    def _nvmlDeviceGetFieldValues(self, handle, ids):
        self.asked = ids
        values = (pynvml.c_nvmlFieldValue_t * len(ids))()
        for entry, field in zip(values, ids, strict=True):
            entry.nvmlReturn = 0 if field == 230 else 3
            entry.valueType = 1
            entry.value.uiVal = 1
        return values

    def _nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [
            types.SimpleNamespace(
                pid=4242,
                usedGpuMemory=2**30,
                gpuInstanceId=0xFFFFFFFF,
                computeInstanceId=0xFFFFFFFF,
            )
        ]

    def _nvmlDeviceGetGraphicsRunningProcesses(self, handle):
        return []

    def _nvmlEventSetWait_v2(self, events, timeout):
        if not self.xids:
            self.idle.wait(timeout / 1000)
            self.idle.clear()
            raise NvmlFakeError(codes.TIMEOUT)
        uuid, xid = self.xids.pop(0)
        return types.SimpleNamespace(
            eventType=8,
            eventData=xid,
            device=uuid,
            gpuInstanceId=0xFFFFFFFF,
            computeInstanceId=0xFFFFFFFF,
        )


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Threads that wait for events end soon, and those that are left do not spin."""
    monkeypatch.setattr(events, "WAIT_MS", 50)
    yield
    for lib in FakeNvml.made:
        lib.fail["nvmlEventSetWait_v2"] = 999
    FakeNvml.made.clear()


def opened(lib=None):
    lib = lib or FakeNvml()
    source = nvml.Nvml(lib, clock=lambda: 0.0)
    assert source.available().state == "yes"
    return lib, source


def read(source):
    (observation,) = source.read()
    return {gpu.uuid: gpu for gpu in observation.gpus}, observation.events


def bytes_of(text):
    return str(text).encode()


def test_the_table_of_fields_is_read():
    """Every reading of the contract is asked for and comes in its place."""
    _, source = opened()
    gpu = read(source)[0]["GPU-A"]
    found = normalize.normalize(gpu).gpu

    assert set(gpu.readings) <= set(reading.READABLE_FIELDS)
    assert (found.utilization_percent, found.memory_utilization_percent) == (42, 13)
    assert found.throttle_reasons == ("sw-power-cap", "hw-thermal-slowdown")
    assert found.recovery_action == "gpu-reset"
    assert found.mig_enabled is False
    assert [process.pid for process in found.processes] == [4242]


def test_one_unsupported_field_costs_only_itself():
    """BR-01: NOT_SUPPORTED on GPU A: its field is None and asked once, all else is there."""
    lib, source = opened()
    lib.fail["nvmlDeviceGetTotalEnergyConsumption", "GPU-A"] = 3
    for _ in range(5):
        gpus, _ = read(source)

    assert gpus["GPU-A"].readings["energy_mj"] == reading.UNSUPPORTED
    assert gpus["GPU-B"].readings["energy_mj"] == 7
    assert lib.calls.count(("nvmlDeviceGetTotalEnergyConsumption", "GPU-A")) == 1


def test_a_failure_is_of_this_time_only():
    """A timeout gives no value and a reason; the next tick asks again."""
    lib, source = opened()
    lib.fail["nvmlDeviceGetPowerUsage", "GPU-B"] = 10
    failed = read(source)[0]["GPU-B"].readings["power_mw"]
    lib.fail.clear()

    assert failed == reading.Failed("error 10")
    assert read(source)[0]["GPU-B"].readings["power_mw"] == 7


def test_a_lost_gpu_does_not_take_the_others_along():
    """BR-21: every call on B says GPU_IS_LOST: B is lost by its UUID, A goes on."""
    lib, source = opened()
    lib.fail["GPU-B"] = codes.GPU_IS_LOST
    gpus, _ = read(source)

    assert gpus["GPU-B"] == reading.RawGpu(uuid="GPU-B", state="lost")
    assert gpus["GPU-A"].readings["utilization_percent"] == 42


def test_a_lost_gpu_is_looked_for_again():
    """NVML is opened anew now and then; one that is not found is missed by who compares, one
    that was reset is found, under its UUID.
    """
    lib = FakeNvml()
    now_s = [0.0]
    source = nvml.Nvml(lib, clock=lambda: now_s[0])
    source.available()
    lib.fail["GPU-B"] = codes.GPU_IS_LOST
    read(source)
    now_s[0] = 61.0
    read(source)
    assert set(read(source)[0]) == {"GPU-A"}
    lib.fail.clear()
    lib.uuids.reverse()
    now_s[0] = 200.0

    assert read(source)[0]["GPU-B"].state == "ok"


def test_no_processes_is_idle():
    """BR-10: NOT_FOUND from the process calls is an empty list, for ever, without a failure."""
    lib, source = opened()
    lib.fail["nvmlDeviceGetComputeRunningProcesses"] = codes.NOT_FOUND
    for _ in range(10):
        gpu = read(source)[0]["GPU-A"]
        assert gpu.processes == ()
        assert not any(isinstance(v, reading.Failed) for v in gpu.readings.values())


def test_names_are_text_in_both_bindings():
    """BR-15: bytes or str from the binding: the same inventory."""
    first = nvml.Nvml(FakeNvml(text=str)).available()
    second = nvml.Nvml(FakeNvml(text=bytes_of)).available()

    assert first == second
    assert first.gpus[0].name == "NVIDIA L4"


def test_memory_of_the_second_version_keeps_reserved_apart():
    """BR-07: v2 tells 8 used, 904 reserved; without v2, v1 is used, reserved unsupported."""
    _, source = opened()
    assert read(source)[0]["GPU-A"].readings["memory_used_bytes"] == 8

    class Old(FakeNvml):
        def _nvmlDeviceGetMemoryInfo(self, handle, version=None):
            if version:
                raise NvmlFakeError(999)
            return super()._nvmlDeviceGetMemoryInfo(handle)

    _, source = opened(Old())
    readings = read(source)[0]["GPU-A"].readings
    assert readings["memory_used_bytes"] == 912
    assert readings["memory_reserved_bytes"] == reading.UNSUPPORTED


def test_unified_memory_is_no_memory_and_still_a_gpu():
    """BR-05: both memory calls unsupported: the GPU is listed, memory is None."""
    lib, source = opened()
    lib.fail["nvmlDeviceGetMemoryInfo"] = 3
    found = normalize.normalize(read(source)[0]["GPU-A"])

    assert found.gpu.memory_total_bytes is None
    assert "memory_total_bytes" in found.unsupported


def test_mig_switched_on_asks_again_what_is_supported():
    """BR-03: what a MIG parent does not tell is None; after a change of mode it is asked anew."""
    lib, source = opened()
    lib.fail["nvmlDeviceGetUtilizationRates", "GPU-A"] = 3
    read(source)
    lib.fail.clear()
    lib._nvmlDeviceGetMigMode = lambda handle: [1, 1]
    source._clock = lambda: 11.0
    read(source)

    assert read(source)[0]["GPU-A"].readings["utilization_percent"] == 42


def test_xids_come_from_the_event_set():
    """BR-29: two equal XIDs are two events; then there are none."""
    lib, source = opened()
    lib.xids = [("GPU-A", 31), ("GPU-A", 31)]
    lib.idle.set()
    heard, rang = [], threading.Event()
    source._events._wake = rang.set
    while len(heard) < 2:
        assert rang.wait(2)
        rang.clear()
        heard += source.news()

    assert [(event.xid, event.gpu_uuid) for event in heard] == [(31, "GPU-A")] * 2
    assert source.news() == []


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (12, "no library"),
        (9, "no library"),
        (4, "no permission"),
        (18, "driver mismatch"),
        (999, "failed"),
    ],
    ids=str,
)
def test_what_is_missing_is_named(code, state):
    """BR-28: no library, no driver, no permission: an answer, not an exception."""
    lib = FakeNvml()
    lib.fail["nvmlInit"] = code

    assert nvml.Nvml(lib).available().state == state


def test_a_driver_without_gpus_is_no_device():
    """An empty list is told as such, never as a healthy node with no GPU."""
    assert nvml.Nvml(FakeNvml(uuids=())).available().state == "no device"


def test_a_driver_that_goes_away_is_a_source_error():
    """Uninitialised in the middle of a read: the source fails and is opened again later."""
    lib, source = opened()
    lib.fail["nvmlDeviceGetPowerUsage"] = 1
    with pytest.raises(errors.SourceError):
        source.read()
    lib.fail.clear()

    assert source.available().state == "yes"


def test_the_real_library_without_a_driver():
    """BR-28: the real pynvml on a machine without a driver: "no library", in words, repeatedly."""
    source = nvml.Nvml()
    found = source.available()
    if found.state == "yes":
        pytest.skip("this machine has NVIDIA GPUs")

    assert found.state == "no library"
    assert found.detail
    with pytest.raises(errors.SourceError):
        source.read()
    source.close()
    assert source.available().state == "no library"
