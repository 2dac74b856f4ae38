"""What spoils an answer costs that answer: each call, spoilt in each way, then sound again."""

import itertools
import threading
import time

import pytest

from edge_agent import config, errors
from edge_agent.core import reading
from edge_agent.sources.nvml import source as nvml
from edge_agent.sources.nvml.samples import DRY_MAX
from support import nvml_fixtures
from support.nvml import standin as machine

pytestmark = pytest.mark.integration

H100 = "h100-80gb-hbm3"
ENDS = {"nvmlShutdown", "nvmlErrorString", "nvmlEventSetFree"}
WAYS = ("garbage {} {} ones", "garbage {} {} random 7", "error {} {} 999", "error {} {} 6")


class Ticked:
    """A source whose clock goes a second on with each read."""

    def __init__(self, **more):
        self.now_s = 0.0
        self.source = nvml.Nvml(clock=lambda: self.now_s, **more)

    def read(self, ticks=1):
        for _ in range(ticks):
            self.now_s += 1
            (observation,) = self.source.read()
        return observation.gpus


@pytest.fixture
def ticked():
    made = []

    def begin(**more):
        made.append(Ticked(**more))
        return made[-1]

    yield begin
    for one in made:
        one.source.close()


def known(gpu):
    """What the GPU told; the mean and maximum of a tick are not in every tick that is faked."""
    return {
        name
        for name, value in gpu.readings.items()
        if not isinstance(value, reading.Unsupported | reading.Failed | None)
        and "_mean_" not in name
        and "_max_" not in name
        and not name.endswith(("_active_percent", "_occupancy_percent"))
    }


def loaded(standin, profile):
    node = standin(machine.Gpu(profile), machine.Gpu("l4"))
    mig = " mig=0" if "mig" in profile else ""
    node.say(f"process 0 pid=100 memory_bytes={2**30} sm=20 kind=compute{mig}")
    return node


@pytest.mark.parametrize("profile", [H100, "h100-80gb-hbm3-mig"])
def test_a_spoilt_call_costs_itself_and_heals(standin, ticked, profile):
    """BR-01's kind: each call of GPU 0, and then of all, answers garbage or errors while they are
    read: never a crash, GPU 1 whole when it is not meant; sound again, all is as it was.
    """
    node = loaded(standin, profile)
    one = ticked()
    assert one.source.available().state == "yes"
    one.read(12)
    symbols = sorted(set(node.calls()) - ENDS)
    assert len(symbols) > 40
    before = one.read(11)
    for symbol, way, meant in itertools.product(symbols, WAYS, "0*"):
        node.say(way.format(meant, symbol))
        is_open = True
        for _ in range(11):
            try:
                gpus = one.read()
            except errors.SourceError:
                is_open = one.source.available().state == "yes"
                continue
            if meant == "0":
                assert gpus[1].state == "ok", (symbol, way)
                assert known(gpus[1]) == known(before[1]), (symbol, way)
        node.say("clear *")
        assert is_open or one.source.available().state == "yes"
        gpus = one.read(13)
        for was, now in zip(before, gpus, strict=True):
            assert known(now) == known(was), (symbol, way, meant)
            assert len(now.mig) == len(was.mig)
            assert [row.pid for row in now.processes] == [row.pid for row in was.processes]


@pytest.mark.parametrize("profile", [H100, "h100-80gb-hbm3-mig"])
def test_a_call_that_is_spoilt_when_the_library_is_opened(standin, ticked, profile):
    """BR-28's kind: garbage or an error from each call of the opening: an answer, and when the
    calls are sound again the GPUs are there with sound facts.
    """
    node = loaded(standin, profile)
    one = ticked()
    whole = one.source.available()
    symbols = sorted(set(node.calls()) - ENDS)
    for symbol, way in itertools.product(symbols, WAYS):
        node.say(way.format("*", symbol))
        found = one.source.available()
        for gpu in found.gpus:
            assert gpu.sm_clock_max_mhz is None or gpu.sm_clock_max_mhz < 10_000, (symbol, way)
            assert gpu.nvlink_count is None or gpu.nvlink_count < 100, (symbol, way)
            assert gpu.compute_capability in {None, "9.0", "8.9"}, (symbol, way)
        assert found.cuda_version in {None, whole.cuda_version}
        node.say("clear *")
        assert one.source.available() == whole, (symbol, way)


def test_an_answer_without_end(standin, ticked):
    """A device says it has room for four billion MIG instances: that is not believed, and the
    tick is not held up.
    """
    node = loaded(standin, "h100-80gb-hbm3-mig")
    one = ticked(settings=config.Nvml(call_limit_ms=500))
    one.source.available()
    node.say("garbage 0 nvmlDeviceGetMaxMigDeviceCount ones")
    gpus = one.read(25)

    assert [gpu.state for gpu in gpus] == ["ok", "ok"]
    assert len(gpus[0].mig) == 4


@pytest.mark.parametrize("code", [4, 999])
def test_devices_that_all_refuse_are_not_no_devices(standin, ticked, code):
    """BR-24, BR-28: the library opens, tells of two devices, and refuses both: no permission or
    failed at the start, access lost later; never "no GPU".
    """
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    rule = f"error * nvmlDeviceGetHandleByIndex_v2 {code}"
    node.say(rule)
    one = ticked()
    assert one.source.available().state == {4: "no permission", 999: "failed"}[code]
    node.say("clear *")
    assert one.source.available().state == "yes"
    one.read(3)
    node.say(rule, f"error * * {code}")
    with pytest.raises(errors.AccessLostError):
        one.read()

    assert one.source.available().state == "access lost"


def test_a_device_that_is_passed_over_is_told_and_looked_for(standin, ticked):
    """BR-21's kind: of two devices one does not answer at the start: the other is read, the
    detail says why, and a minute later it is looked for again.
    """
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    node.say("lost 1")
    one = ticked()
    found = one.source.available()
    assert found.state == "yes"
    assert "device 1" in found.detail
    assert len(one.read()) == 1
    node.say("back 1")
    one.now_s += 61
    for _ in range(20):
        if len(one.read()) == 2:
            break
        time.sleep(0.05)

    assert [gpu.state for gpu in one.read()] == ["ok", "ok"]


def test_the_only_gpu_that_is_lost_stays_lost(standin, ticked):
    """BR-21: looked for in vain a minute later, the only GPU is lost under its UUID, not "no
    device"; then it is back.
    """
    node = standin(machine.Gpu(H100))
    one = ticked()
    one.source.available()
    node.say("lost 0")
    one.read()
    for _ in range(3):
        one.now_s += 61
        for _ in range(5):
            (gpu,) = one.read()
            assert gpu.state == "lost"
    node.say("back 0")
    one.now_s += 61
    for _ in range(20):
        (gpu,) = one.read()
        if gpu.state == "ok":
            break
        time.sleep(0.05)

    assert gpu.state == "ok"


def test_the_binding_is_named_with_its_version(standin, ticked):
    """BR-08: the versions of library and binding are told."""
    standin(machine.Gpu(H100))
    versions = ticked().source.available().library_versions

    assert versions["nvidia-ml-py"][:1].isdigit()
    assert versions["nvml"]


def test_a_wall_clock_that_is_set_back(standin, ticked):
    """BR-43's kind: the driver's stamps jump an hour back: mean and maximum come again."""
    node = standin(machine.Gpu(H100))
    one = ticked()
    one.source.available()
    one.read()
    node.say("clock -3600")
    one.read(DRY_MAX + 2)
    time.sleep(0.3)
    (gpu,) = one.read()

    assert gpu.readings.get("power_max_mw") is not None


def test_a_driver_whose_version_cannot_be_had_is_not_another_driver(standin, ticked):
    """A version that fails once is no event; another version is, with both."""
    node = standin(machine.Gpu(H100), driver_version="550.54.15")
    one = ticked()
    one.source.available()
    node.say("error * nvmlSystemGetDriverVersion 999")
    assert one.source.available().driver_version is None
    node.say("clear *")
    one.source.available()
    one.now_s += 1
    assert one.source.read()[0].events == ()

    node.say("driver 580.105.08 loaded")
    one.source.available()
    one.now_s += 1
    (event,) = one.source.read()[0].events
    assert event.detail == "550.54.15 before, 580.105.08 now"


def test_closing_waits_for_nothing(standin, ticked):
    """BR-23: a device hangs, or nvmlShutdown does: close comes back at once."""
    older = set(threading.enumerate())
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    for rule in ("hang 0 nvmlDeviceGetPowerUsage", "hang * nvmlShutdown"):
        one = ticked(settings=config.Nvml(call_limit_ms=50))
        one.source.available()
        node.say(rule)
        one.read()
        started_s = time.monotonic()
        one.source.close()
        assert time.monotonic() - started_s < 0.1
        node.say("release *")
        nvml_fixtures.settle(older)


def test_the_library_is_not_opened_anew_under_a_call_that_hangs(standin, ticked):
    """BR-23: while a call for GPU 0 hangs, looking again says so at once and calls nothing."""
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    one = ticked(settings=config.Nvml(call_limit_ms=50))
    hung = one.source.available().gpus[0].uuid
    node.say("hang 0 nvmlDeviceGetPowerUsage")
    one.read()
    opened = node.calls()["nvmlInitWithFlags"]
    found = one.source.available()
    assert (found.state, node.calls()["nvmlInitWithFlags"]) == ("access lost", opened)
    assert hung in found.detail

    node.say("release")
    for _ in range(100):
        if one.source.available().state == "yes":
            break
        time.sleep(0.01)
    assert [gpu.state for gpu in one.read()] == ["ok", "ok"]
