"""The stand-in's faults through the real pynvml: errors, loss, upgrades, garbage, delays."""

import threading
import time

import pynvml
import pytest

from support.nvml import asking
from support.nvml import standin as nvml
from support.nvml_fixtures import Machines

H100 = "h100-80gb-hbm3"


def test_errors_of_one_call_of_one_gpu(standin: Machines) -> None:
    """The most exact rule wins; `clear` ends it; a counted error ends by itself."""
    node = standin(nvml.Gpu(H100), nvml.Gpu(H100))
    one, two = asking.handles()
    power = pynvml.nvmlDeviceGetPowerUsage
    node.say("error * nvmlDeviceGetPowerUsage 4", "error 1 nvmlDeviceGetPowerUsage 999")
    assert (asking.code(power, one), asking.code(power, two)) == (4, 999)
    node.say("clear 1 nvmlDeviceGetPowerUsage")
    assert (asking.code(power, one), asking.code(power, two)) == (4, 4)
    node.say("clear", "error 0 * 17 2")
    assert [asking.code(power, one) for _ in range(3)] == [17, 17, 0]
    node.say("error * * 999")
    assert {
        asking.code(power, one),
        asking.code(pynvml.nvmlDeviceGetCount),
        asking.code(pynvml.nvmlInit),
    } == {999}
    node.say("clear")
    assert asking.code(pynvml.nvmlInit) == 0


def test_a_lost_gpu_leaves_the_other_alone(standin: Machines) -> None:
    """BR-21: all calls about it answer 15, finding it too; it is still counted, and returns."""
    node = standin(nvml.Gpu(H100), nvml.Gpu(H100))
    one, two = asking.handles()
    node.say("lost 1")

    assert asking.code(pynvml.nvmlDeviceGetPowerUsage, two) == pynvml.NVML_ERROR_GPU_IS_LOST
    assert asking.code(pynvml.nvmlDeviceGetName, two) == pynvml.NVML_ERROR_GPU_IS_LOST
    assert asking.code(pynvml.nvmlDeviceGetHandleByIndex, 1) == pynvml.NVML_ERROR_GPU_IS_LOST
    assert asking.code(pynvml.nvmlDeviceGetPowerUsage, one) == 0
    assert pynvml.nvmlDeviceGetCount() == 2
    node.say("back 1")
    assert asking.code(pynvml.nvmlDeviceGetPowerUsage, two) == 0


@pytest.mark.parametrize("pinned", [False, True], ids=["now", "at-init"])
def test_order_and_number_of_gpus_change(pinned: bool, standin: Machines) -> None:
    """BR-17: indices are places in a list; pinned, the list changes at the next init only."""
    node = standin(nvml.Gpu(H100), nvml.Gpu("l4"))
    asking.handles()
    node.say(*(["enumerate at-init"] if pinned else []), "order 1,0")
    node.say("add tesla-t4 uuid=GPU-new")
    if pinned:
        assert pynvml.nvmlDeviceGetCount() == 2
        pynvml.nvmlShutdown()
        pynvml.nvmlInit()

    named = [pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i)) for i in range(3)]

    assert named == ["NVIDIA L4", "NVIDIA H100 80GB HBM3", "Tesla T4"]
    assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID("GPU-new")) == 2


def test_a_removed_gpu_is_lost_to_its_handle(standin: Machines) -> None:
    """Who holds a handle gets 15; the list is one shorter."""
    node = standin(nvml.Gpu(H100), nvml.Gpu("l4"))
    one, _ = asking.handles()
    node.say("remove 0")

    assert asking.code(pynvml.nvmlDeviceGetName, one) == pynvml.NVML_ERROR_GPU_IS_LOST
    assert pynvml.nvmlDeviceGetCount() == 1


def test_driver_upgraded_underneath(standin: Machines) -> None:
    """BR-25: init answers 18 until the module is loaded; the library keeps its own version."""
    node = standin(nvml.Gpu(H100), driver_version="550.1", cuda_version="12.4")
    (handle,) = asking.handles()
    node.say("driver 580.1")

    assert asking.code(pynvml.nvmlDeviceGetPowerUsage, handle) == 0
    assert pynvml.nvmlSystemGetDriverVersion() == "580.1"
    assert pynvml.nvmlSystemGetNVMLVersion() == "12.550.1"
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 12040
    pynvml.nvmlShutdown()
    assert asking.code(pynvml.nvmlInit) == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    assert pynvml.nvmlSystemGetNVMLVersion() == "12.550.1"
    node.say("driver none")
    assert asking.code(pynvml.nvmlInit) == pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    node.say("driver 580.1 loaded")
    pynvml.nvmlInit()
    assert pynvml.nvmlSystemGetNVMLVersion() == "12.580.1"


def test_old_drivers_lack_calls(standin: Machines) -> None:
    """A branch whose header lacks a call answers 13; commands hide and show single ones."""
    node = standin(nvml.Gpu(H100), driver_version="525.60.13")
    (handle,) = asking.handles()

    assert asking.code(pynvml.nvmlDeviceGetTemperatureV, handle, 0) == 13
    assert asking.code(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle) == 13
    assert asking.code(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle) == 0
    assert pynvml.nvmlDeviceGetFieldValues(handle, [230])[0].nvmlReturn == 2
    node.say("show nvmlDeviceGetTemperatureV", "hide nvmlDeviceGetMemoryInfo_v2")
    assert asking.code(pynvml.nvmlDeviceGetTemperatureV, handle, 0) == 0
    assert asking.code(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2) == 13


def test_version_words(standin: Machines) -> None:
    """A layout that the driver does not know is refused with 25; `versions` says what it knows."""
    node = standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    third = pynvml.c_nvmlGpuFabricInfo_v3_t()
    second = pynvml.c_nvmlGpuFabricInfo_v2_t()
    ask = pynvml.nvmlDeviceGetGpuFabricInfoV

    assert asking.code(ask, handle, pynvml.byref(third)) == 0
    node.say("versions nvmlDeviceGetGpuFabricInfoV 2")
    assert asking.code(ask, handle, pynvml.byref(third)) == 25
    assert asking.code(ask, handle, pynvml.byref(second)) == 0
    assert (second.state, second.cliqueId) == (third.state, third.cliqueId)
    assert asking.code(pynvml.nvmlDeviceGetMemoryInfo, handle, 0x3000028) == 25


def test_garbage(standin: Machines) -> None:
    """BR-12: a call succeeds with all ones, or with random bytes that a seed repeats."""
    node = standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    node.say("garbage 0 nvmlDeviceGetPowerUsage ones", "garbage 0 nvmlDeviceGetFieldValues ones")
    fields = pynvml.nvmlDeviceGetFieldValues(handle, [83, 230])

    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 2**32 - 1
    assert [one.value.ullVal for one in fields] == [2**64 - 1] * 2
    assert [one.nvmlReturn for one in fields] == [0, 0]
    node.say("garbage 0 nvmlDeviceGetPowerUsage random 5")
    first = pynvml.nvmlDeviceGetPowerUsage(handle)
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == first
    node.say("clear")
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 69850


def test_a_name_that_is_not_text(standin: Machines) -> None:
    """BR-15: bytes that are not UTF-8 come out of pynvml as its own error."""
    node = standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    node.say(r"set 0 name NVIDIA \xff\xfe")

    with pytest.raises(UnicodeDecodeError):
        pynvml.nvmlDeviceGetName(handle)


@pytest.mark.parametrize("how", ["", " busy"], ids=["sleeping", "busy"])
def test_calls_cost_time(how: str, standin: Machines) -> None:
    """A cost is spent by that call and by no other, without holding up another thread."""
    node = standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    node.say(f"cost * nvmlDeviceGetPcieThroughput 100000{how}")
    slow = threading.Thread(target=pynvml.nvmlDeviceGetPcieThroughput, args=(handle, 0))
    began = time.monotonic()
    slow.start()
    time.sleep(0.005)
    pynvml.nvmlDeviceGetPowerUsage(handle)
    quick_s = time.monotonic() - began
    slow.join()

    assert quick_s < 0.09
    assert time.monotonic() - began >= 0.1


def test_a_call_that_hangs_until_released(standin: Machines) -> None:
    """BR-23: it does not return, others do, no processor time is used, and `release` ends it."""
    node = standin(nvml.Gpu(H100), nvml.Gpu(H100))
    one, two = asking.handles()
    node.say("hang 0 nvmlDeviceGetUtilizationRates")
    stuck = threading.Thread(target=pynvml.nvmlDeviceGetUtilizationRates, args=(one,))
    stuck.start()
    began, used = time.monotonic(), time.process_time()
    stuck.join(0.1)
    passed, used = time.monotonic() - began, time.process_time() - used

    assert stuck.is_alive()
    assert used < passed / 2
    assert pynvml.nvmlDeviceGetUtilizationRates(two).gpu == 0
    assert pynvml.nvmlDeviceGetPowerUsage(one) > 0
    node.say("release 0")
    stuck.join(1)
    assert not stuck.is_alive()
