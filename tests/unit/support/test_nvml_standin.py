"""The stand-in library through the real pynvml: machines, commands, counting."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pynvml
import pytest

from support.nvml import asking
from support.nvml import standin as nvml
from support.nvml_fixtures import Machines

H100 = "h100-80gb-hbm3"
OTHER_PROCESS = """
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
print(pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetPowerUsage(handle))
"""


def test_two_gpus_of_one_profile_differ(standin: Machines) -> None:
    """Each has its own UUID, serial, address and minor number; the readings are equal."""
    standin(nvml.Gpu(H100), nvml.Gpu(H100))

    both = [
        (
            pynvml.nvmlDeviceGetUUID(h),
            pynvml.nvmlDeviceGetSerial(h),
            pynvml.nvmlDeviceGetPciInfo(h).busId,
            pynvml.nvmlDeviceGetMinorNumber(h),
        )
        for h in asking.handles()
    ]

    assert all(one != two for one, two in zip(*both, strict=True))


def test_three_hundred_gpus_with_one_serial(standin: Machines) -> None:
    """All of them are there, each found by its UUID; the serial finds none of them."""
    standin(*(nvml.Gpu("l4", serial="1") for _ in range(300)))
    handles = asking.handles()
    uuids = [pynvml.nvmlDeviceGetUUID(h) for h in handles]

    found = [pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(u)) for u in uuids]

    assert found == list(range(300))
    assert len(set(uuids)) == 300
    assert {pynvml.nvmlDeviceGetSerial(h) for h in handles} == {"1"}
    assert (
        asking.code(pynvml.nvmlDeviceGetHandleBySerial, "1") == pynvml.NVML_ERROR_INVALID_ARGUMENT
    )


def test_another_process_plays_the_machine(standin: Machines) -> None:
    """A process with the node's environment sees it, commands included, and is counted."""
    node = standin(nvml.Gpu(H100))
    node.say("set 0 power.draw_mw 52000")
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        env=os.environ | node.environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "NVIDIA H100 80GB HBM3 52000\n"
    assert node.calls()["nvmlDeviceGetPowerUsage"] == 1


def test_wrong_machines_are_told(standin: Machines, tmp_path: Path) -> None:
    """An unknown key, profile, sample or number is an error that names it."""
    cases = {
        "no.such.key": nvml.Gpu(H100, set={"no.such.key": "1"}),
        "power.draw_mw": nvml.Gpu(H100, set={"power.draw_mw": "much"}),
        "samples.power.draw_mw": nvml.Gpu(H100, set={"samples.power.draw_mw": "1"}),
        "no-such-gpu": nvml.Gpu("no-such-gpu"),
        "no-such-sample": nvml.Gpu(H100, sample="no-such-sample"),
    }
    for word, gpu in cases.items():
        with pytest.raises(nvml.NodeError, match=word):
            nvml.Node(tmp_path / "wrong", [gpu])


def test_a_check_leaves_the_loaded_machine_alone(standin: Machines, tmp_path: Path) -> None:
    """Making another machine does not change the one that is played."""
    standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    nvml.Node(tmp_path / "other", [nvml.Gpu("l4")])

    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA H100 80GB HBM3"


def test_bad_commands_are_reported_and_skipped(standin: Machines) -> None:
    """A line that is not understood stands in `problems`; those around it take effect."""
    node = standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    bad = ["dance", "set 0", "set 9 name x", "set 0 no.key 1", "error 0 nvmlNothing 3", "xid 0 x"]
    node.say("set 0 power.draw_mw 1000", *bad, "set 0 temperature.gpu_c -7")

    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 1000
    assert pynvml.nvmlDeviceGetTemperatureV(handle, 0) == -7
    assert pynvml.nvmlDeviceGetTemperature(handle, 0) == 2**32 - 7
    assert [line.rpartition(": ")[2] for line in node.problems()] == bad


def test_unloaded_it_is_not_there(standin: Machines) -> None:
    """Without a machine nvmlInit says that there is no library."""
    standin(nvml.Gpu(H100))
    pynvml.nvmlInit()
    nvml.unload()

    assert asking.code(pynvml.nvmlInit) == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND


def test_init_is_counted(standin: Machines) -> None:
    """Two inits need two shutdowns; after the last one calls answer 1."""
    standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    still = pynvml.nvmlDeviceGetPowerUsage(handle)
    pynvml.nvmlShutdown()

    assert still > 0
    assert asking.code(pynvml.nvmlDeviceGetPowerUsage, handle) == pynvml.NVML_ERROR_UNINITIALIZED
    assert asking.code(pynvml.nvmlShutdown) == pynvml.NVML_ERROR_UNINITIALIZED
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == still


def test_uninitialised_underneath(standin: Machines) -> None:
    """The library may forget that it was initialised; initialised anew it goes on."""
    node = standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    node.say("uninitialise")

    assert asking.code(pynvml.nvmlDeviceGetName, handle) == pynvml.NVML_ERROR_UNINITIALIZED
    pynvml.nvmlInit()
    assert asking.code(pynvml.nvmlDeviceGetName, handle) == 0


def test_energy_is_power_times_time(standin: Machines) -> None:
    """The counter counts, keeps what it has when the power changes, and stands when it is set."""
    node = standin(nvml.Gpu(H100, set={"power.draw_mw": "400000", "energy.total_mj": "5000"}))
    (handle,) = asking.handles()
    first, began = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), time.monotonic()
    time.sleep(0.05)
    node.say("set 0 power.draw_mw 0")
    second, passed = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle), time.monotonic() - began
    time.sleep(0.01)

    assert 0.05 * 400_000 - 1 <= second - first <= passed * 400_000 + 1
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) == second
    node.say("set 0 energy.total_mj 77", "set 0 power.draw_mw 100000")
    time.sleep(0.01)
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 77
    node.say("count 0 energy.total_mj")
    time.sleep(0.01)
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) > 77


def test_throttle_time_counts_while_the_reason_is_active(standin: Machines) -> None:
    """Each reason has its counter, told by violation status and by field; the others stand."""
    node = standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    node.say("set 0 clocks_event.active_mask 0x40")
    before = pynvml.nvmlDeviceGetFieldValues(handle, [269, 270, 271])
    time.sleep(0.02)
    after = pynvml.nvmlDeviceGetFieldValues(handle, [269, 270, 271])
    passed = [two.value.ullVal - one.value.ullVal for one, two in zip(before, after, strict=True)]

    assert passed[1] >= 20_000_000
    assert (passed[0], passed[2]) == (0, 0)
    assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle) == 0x40


def test_used_memory_takes_from_the_free(standin: Machines) -> None:
    """BR-07: version 2 tells the reserved apart, version 1 counts it as used; totals hold."""
    node = standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    node.say("set 0 memory.used_bytes 1073741824")
    one = pynvml.nvmlDeviceGetMemoryInfo(handle)
    two = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)

    assert two.used == 2**30
    assert one.used == two.used + two.reserved
    assert two.total == two.reserved + two.used + two.free
    assert one.free == two.free


def test_another_sample_is_another_load(standin: Machines) -> None:
    """`sample` brings the readings of another state and keeps the identity and the energy."""
    node = standin(nvml.Gpu(H100, uuid="GPU-own"))
    (handle,) = asking.handles()
    idle = pynvml.nvmlDeviceGetPowerUsage(handle)
    energy = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    node.say("sample 0 busy")

    assert pynvml.nvmlDeviceGetPowerUsage(handle) > idle
    assert pynvml.nvmlDeviceGetUtilizationRates(handle).gpu > 0
    assert pynvml.nvmlDeviceGetUUID(handle) == "GPU-own"
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) - energy < 1_000_000
    node.say("sample 0 nothing")
    pynvml.nvmlDeviceGetName(handle)
    assert "no sample nothing" in node.problems()[0]


def test_calls_are_cheap_and_safe_from_many_threads(standin: Machines) -> None:
    """4 threads while commands come in: every reading is one of those that were set."""
    node = standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    allowed = {69850, *range(50_000, 50_100)}
    seen: set[int] = set()
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            seen.add(pynvml.nvmlDeviceGetPowerUsage(handle))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for value in range(50_000, 50_100):
        node.say(f"set 0 power.draw_mw {value}")
    is_over.set()
    for thread in threads:
        thread.join()

    assert seen <= allowed
    assert pynvml.nvmlDeviceGetPowerUsage(handle) == 50_099
    assert node.calls()["nvmlDeviceGetPowerUsage"] >= len(seen)


def test_a_child_of_fork_goes_on(standin: Machines) -> None:
    """A process that forks with the library loaded can call it in the child."""
    standin(nvml.Gpu(H100))
    (handle,) = asking.handles()
    child = os.fork()
    if child == 0:
        os._exit(0 if pynvml.nvmlDeviceGetPowerUsage(handle) == 69850 else 1)

    assert os.waitpid(child, 0)[1] == 0


def test_no_compiler_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without gcc the build says so."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(nvml.BuildError, match="gcc"):
        nvml.build(tmp_path / "new")
