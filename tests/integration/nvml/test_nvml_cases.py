"""Cases from the field through the real binding: what drivers answer, and what is made of it."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edge_agent import errors
from edge_agent.core import cadence, normalize, record
from edge_agent.sources.nvml import source as nvml
from support import agents, nvml_fixtures
from support.nvml import standin as machine

pytestmark = pytest.mark.integration

H100 = "h100-80gb-hbm3"
LIMITS = cadence.Limits(tick_ms=1000, idle_ms=4000, asleep_ms=30_000)


@pytest.fixture
def opened():
    sources = []

    def begin(**more):
        source = nvml.Nvml(**more)
        sources.append(source)
        return source

    yield begin
    for source in sources:
        source.close()


def only(source):
    """The one GPU as it goes out, and how many values were impossible."""
    (observation,) = source.read()
    found = normalize.normalize(observation.gpus[0])
    return found.gpu, found.invalid_count


def test_memory_without_and_with_a_broken_second_version(standin, opened):
    """BR-07: with version 2, reserved memory is apart; without its symbol, and where it answers
    UNKNOWN (seen under WSL), version 1 is used and marked.
    """
    node = standin(machine.Gpu(H100))
    source = opened()
    source.available()
    gpu, _ = only(source)
    assert (gpu.memory_method, gpu.memory_used_bytes) == ("reserved-apart", 0)
    assert gpu.memory_reserved_bytes

    node.say("error 0 nvmlDeviceGetMemoryInfo_v2 999")
    gpu, _ = only(source)
    assert (gpu.memory_method, gpu.memory_reserved_bytes) == ("reserved-in-used", None)
    node.say("clear *")
    assert only(source)[0].memory_method == "reserved-apart"

    node.say("error 0 nvmlDeviceGetMemoryInfo_v2 25")
    for _ in range(3):
        assert only(source)[0].memory_method == "reserved-in-used"
    assert only(source)[0].errors == {}


def test_unified_memory_is_marked(standin, opened):
    """BR-05: GB10 and Jetson: listed, memory null and marked as unified, nothing failed."""
    for profile in ("gb10", "jetson-thor"):
        standin(machine.Gpu(profile))
        source = opened()
        source.available()
        gpu, invalid_count = only(source)

        assert gpu.memory_method == "unified"
        assert (gpu.memory_total_bytes, gpu.memory_used_bytes) == (None, None)
        assert (gpu.errors, invalid_count) == ({}, 0)


def test_impossible_power_of_one_tick(standin, opened):
    """BR-12: 52 W, 4 GW, 51 W: the middle one is null and counted, its neighbours stand."""
    node = standin(machine.Gpu(H100))
    source = opened()
    source.available()
    seen = []
    for command in ("set 0 power.draw_mw 52000", "garbage 0 nvmlDeviceGetPowerUsage ones"):
        node.say(command)
        gpu, invalid_count = only(source)
        seen.append((gpu.power_mw, invalid_count))
    node.say("clear 0", "set 0 power.draw_mw 51000")
    gpu, invalid_count = only(source)
    seen.append((gpu.power_mw, invalid_count))

    assert seen == [(52_000, 0), (None, 1), (51_000, 0)]


def test_no_energy_counter_is_never_zero_energy(standin, opened):
    """BR-13: the counter is not supported: energy is power times time, marked, and never 0."""
    node = standin(machine.Gpu("quadro-p400"))
    node.say("set 0 energy.total_mj unsupported", "set 0 power.draw_mw 100000")
    source = opened()
    found = source.available()
    state = record.State(pace=cadence.Pace(wait_ms=1000))
    told = []
    for now_ms in range(0, 61_000, 1000):
        look = record.Look(source="nvml", observations=source.read(), inventory=found.gpus)
        step = record.step(
            state, [look], record.Moment(now_ms=now_ms, now_unix_ms=now_ms + 10**12), LIMITS
        )
        state = step.state
        told += [gpu for one in step.records if hasattr(one, "gpus") for gpu in one.gpus]

    assert told[0].energy_mj is None
    assert told[-1].energy_method == "integrated"
    assert abs(told[-1].energy_mj - 6_000_000) <= 100_000


def test_a_library_that_comes_later(standin, opened):
    """BR-28: no library, then the driver not loaded, then GPUs: three answers, no exception."""
    machine.unload()
    source = opened()
    assert source.available().state == "no library"
    node = standin(machine.Gpu(H100))
    node.say("driver none")
    assert source.available().state == "no library"
    with pytest.raises(errors.SourceError):
        source.read()
    node.say("driver 580.105.08 loaded")
    assert source.available().state == "yes"
    assert only(source)[0].power_mw


@pytest.mark.parametrize("code", [4, 17], ids=["no permission", "blocked by the system"])
def test_a_machine_that_does_not_let_us(standin, opened, code):
    """BR-24: refused from the first call on: said in words, and no GPU is made up."""
    node = standin(machine.Gpu(H100))
    node.say(f"error * nvmlInitWithFlags {code}")
    source = opened()
    found = source.available()

    assert found.state in {"no permission", "failed"}
    assert found.detail
    assert found.gpus == ()


def test_half_a_driver(standin, opened):
    """A library that lacks half of its symbols gives the other half, and fails in nothing."""
    node = standin(machine.Gpu(H100))
    hidden = [
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetJpgUtilization",
        "nvmlDeviceGetOfaUtilization",
        "nvmlDeviceGetMarginTemperature",
        "nvmlGpmQueryDeviceSupport",
        "nvmlDeviceGetFieldValues",
    ]
    node.say(*(f"hide {symbol}" for symbol in hidden))
    source = opened()
    source.available()
    gpu, invalid_count = only(source)

    assert (gpu.errors, invalid_count) == ({}, 0)
    assert gpu.temperature_c is not None
    assert gpu.throttle_reasons is not None
    assert gpu.energy_mj is not None
    assert gpu.memory_used_bytes is not None
    assert gpu.temperature_margin_c is None


def test_nothing_leaks(standin, opened):
    """BR-27: 50,000 ticks, a GPU lost and found again every 1,000: memory and descriptors level
    off, every init has its shutdown.
    """
    older = set(threading.enumerate())
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    clock = [0.0]
    source = opened(clock=lambda: clock[0])
    source.available()

    def run(rounds):
        for _ in range(rounds):
            node.say("lost 1")
            for _ in range(500):
                clock[0] += 1
                source.read()
            node.say("back 1")
            for _ in range(500):
                clock[0] += 1
                source.read()
        gc.collect()
        return resident_kib(), len(list(Path("/proc/self/fd").iterdir()))

    before_kib, before_fds = run(10)
    after_kib, after_fds = run(40)

    assert after_fds <= before_fds + 2
    assert after_kib - before_kib < 1024
    source.close()
    nvml_fixtures.settle(older)
    calls = node.calls()
    assert calls["nvmlInitWithFlags"] == calls["nvmlShutdown"] > 30


def resident_kib():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def test_processes_keep_what_is_known(standin, opened):
    """BR-34, BR-35: owners are told by who can; here nobody: unknown, with memory and share."""
    node = standin(machine.Gpu(H100))
    node.say(f"process 0 pid=12 memory_bytes={2**30} sm=40 kind=compute")
    source = opened()
    source.available()
    gpu, _ = only(source)

    (process,) = gpu.processes
    assert (process.pid, process.owner, process.pod_uid) == (12, "unknown", None)
    assert process.memory_used_bytes == 2**30


LOOK = (
    "from edge_agent.sources.nvml import source\n"
    "found = source.Nvml().available()\n"
    "print(found.state, '|', found.detail)"
)


@pytest.mark.parametrize("kind", ["another architecture", "not a library", "an empty library"])
def test_a_library_that_is_none(tmp_path, kind):
    """Bad input: a library of another machine, a file that is none, one without its functions
    (a driver that is half removed): told in words, no GPU, no crash.
    """
    library = tmp_path / "libnvidia-ml.so.1"
    if kind == "an empty library":
        source = tmp_path / "empty.c"
        source.write_text("int nothing;")
        subprocess.run(["gcc", "-shared", "-o", library, source], check=True)
    else:
        elf = bytearray(Path(sys.executable).resolve().read_bytes()[:4096])
        elf[18:20] = (0xB7, 0x00)  # the machine: AArch64
        library.write_bytes(elf if kind == "another architecture" else b"no library\n")
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(agents.ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    state, _, detail = done.stdout.partition(" | ")
    assert state in {"no library", "failed"}
    assert detail.strip()
