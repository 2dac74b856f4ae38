"""The NVML source through the real binding, on a stand-in for NVIDIA's library."""

import random
import threading
import time

import msgspec
import pytest

from edge_agent import config, errors
from edge_agent.core import cadence, normalize, reading, record
from edge_agent.sources.nvml import source as nvml
from support.nvml import standin as machine
from wire import codec
from wire.sample import Event, Sample

pytestmark = pytest.mark.integration

H100 = "h100-80gb-hbm3"
LIMITS = cadence.Limits(tick_ms=1000, idle_ms=4000, asleep_ms=30_000)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Run:
    """A source on a stand-in machine, ticked by hand; `samples` and `events` as they go out."""

    def __init__(self, **more) -> None:
        self.clock = Clock()
        self.source = nvml.Nvml(clock=self.clock, **more)
        self.found = self.source.available()
        self.state = record.State(pace=cadence.Pace(wait_ms=1000))
        self.samples, self.events = [], []

    def tick(self):
        self.clock.now_s += 1
        look = record.Look(
            source="nvml", observations=self.source.read(), inventory=self.found.gpus
        )
        now_ms = int(self.clock.now_s * 1000)
        moment = record.Moment(now_ms=now_ms, now_unix_ms=1_790_000_000_000 + now_ms)
        step = record.step(self.state, [look], moment, LIMITS)
        self.state = step.state
        for one in step.records:
            assert codec.decode_record(codec.encode(one)) == one
            (self.samples if isinstance(one, Sample) else self.events).append(one)
        return {gpu.uuid: gpu for gpu in self.samples[-1].gpus}

    def names(self):
        return [one.event for one in self.events if isinstance(one, Event)]


@pytest.fixture
def run():
    runs = []

    def begin(**more):
        runs.append(Run(**more))
        return runs[-1]

    yield begin
    for one in runs:
        one.source.close()


KEYS = {
    "utilization_percent": "utilization.gpu_pct",
    "memory_utilization_percent": "utilization.memory_pct",
    "encoder_utilization_percent": "utilization.encoder_pct",
    "decoder_utilization_percent": "utilization.decoder_pct",
    "jpeg_utilization_percent": "utilization.jpeg_pct",
    "ofa_utilization_percent": "utilization.ofa_pct",
    "memory_total_bytes": "memory.total_bytes",
    "memory_used_bytes": "memory.used_bytes",
    "memory_free_bytes": "memory.free_bytes",
    "memory_reserved_bytes": "memory.reserved_bytes",
    "bar1_total_bytes": "bar1.total_bytes",
    "bar1_used_bytes": "bar1.used_bytes",
    "power_mw": "power.draw_mw",
    "power_limit_mw": "power_limit.enforced_mw",
    "temperature_c": "temperature.gpu_c",
    "temperature_memory_c": "temperature.memory_c",
    "fan_percent": "fan_pct",
    "graphics_clock_mhz": "clock.graphics_mhz",
    "sm_clock_mhz": "clock.sm_mhz",
    "memory_clock_mhz": "clock.memory_mhz",
    "video_clock_mhz": "clock.video_mhz",
    "performance_state": "performance_state",
    "pcie_generation": "pcie.gen",
    "pcie_width": "pcie.width",
    "pcie_replay_count": "pcie.replay_counter",
}
"""Readings and the keys of a profile that say the same."""


def expected(profile):
    """What a profile says of the sample it starts in; None where it has no value."""
    lines = machine.profile(profile)
    start = lines["default_sample"]
    found = {}
    for name, key in KEYS.items():
        text = lines.get(f"@{start} {key}", lines.get(key))
        if text is not None:
            found[name] = None if text in NO_VALUES else int(text)
    return found


NO_VALUES = {"unsupported", "deprecated", "no_permission", "unknown"}


@pytest.mark.parametrize("profile", machine.profiles())
def test_every_profile_runs(standin, run, profile):
    """60 ticks of each of the 31 devices: no reading fails, none is impossible, what the device
    does not have is listed once, and what it has is what the profile says.
    """
    standin(machine.Gpu(profile))
    one = run()
    assert one.found.state == "yes"
    for _ in range(60):
        (gpu,) = one.tick().values()

        assert gpu.state == "ok"
        assert gpu.errors == {}
        assert one.samples[-1].invalid_count == 0
    for name, value in expected(profile).items():
        assert getattr(gpu, name) == value, name
    assert one.found.gpus[0].name
    assert one.names() in ([], ["throttle-start"], ["recovery-action-changed"])


def test_a_full_gpu_has_its_quantities(standin, run):
    """An H100 tells at least 45 quantities in a tick."""
    standin(machine.Gpu(H100))
    one = run()
    for _ in range(3):
        (gpu,) = one.tick().values()
        time.sleep(0.12)
    known = [name for name in reading.READABLE_FIELDS if getattr(gpu, name) is not None]

    assert len(known) >= 45, known


def test_xids_come_through_the_event_set(standin, run):
    """BR-29, BR-32: XIDs ring at once, each with its GPU; two equal ones are two."""
    rang = threading.Event()
    node = standin(machine.Gpu(H100), machine.Gpu(H100))
    one = run(wake=rang.set)
    uuids = list(one.tick())
    node.say("xid 1 79", "xid 0 31", "xid 0 31")
    heard = []
    while len(heard) < 3:
        assert rang.wait(3)
        rang.clear()
        heard += one.source.news()

    assert sorted((event.gpu_uuid, event.xid) for event in heard) == sorted(
        [(uuids[1], 79), (uuids[0], 31), (uuids[0], 31)]
    )


def test_a_gpu_that_falls_off_the_bus(standin, run):
    """BR-21: from tick 3 on GPU 1 is lost: GPU 0 goes on, one event, and it comes back."""
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    one = run()
    for _ in range(2):
        uuids = list(one.tick())
    node.say("lost 1")
    for _ in range(5):
        gpus = one.tick()
    assert [gpus[uuid].state for uuid in uuids] == ["ok", "lost"]
    assert one.names() == ["gpu-lost"]

    node.say("back 1")
    one.clock.now_s += 61
    gpus = one.tick()
    assert [gpus[uuid].state for uuid in uuids] == ["ok", "ok"]
    assert one.names() == ["gpu-lost", "gpu-back"]


def test_a_call_that_never_returns(standin, run):
    """BR-23: a call for GPU 0 hangs: unresponsive after the limit, GPU 1 in every sample, no
    thread a tick; released, the GPU is back.
    """
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    one = run(settings=config.Nvml(call_limit_ms=100))
    hung, well = list(one.tick())
    node.say("hang 0 nvmlDeviceGetUtilizationRates")
    threads = threading.active_count()
    for _ in range(6):
        gpus = one.tick()
        assert gpus[well].state == "ok"
        assert gpus[well].power_mw is not None
    assert gpus[hung].state == "unresponsive"
    assert threading.active_count() <= threads + 1

    node.say("release")
    time.sleep(0.2)
    assert one.tick()[hung].state == "ok"
    assert one.names() == ["gpu-unresponsive", "gpu-back"]


def test_a_driver_that_is_replaced_underneath(standin, run):
    """BR-25: the module is another version: driver mismatch with what is known, not 0 GPUs."""
    node = standin(machine.Gpu(H100), driver_version="550.54.15")
    one = run()
    one.tick()
    node.say("driver 580.105.08", "lost *")
    (gpu,) = one.tick().values()
    assert gpu.state == "lost"
    one.clock.now_s += 61
    with pytest.raises(errors.DriverMismatchError):
        one.tick()
    assert one.source.available().state == "driver mismatch"


def test_a_driver_that_was_replaced_is_told(standin, run):
    """Another version after reopening, library and module alike: one event with both."""
    node = standin(machine.Gpu(H100), driver_version="550.54.15")
    one = run()
    one.tick()
    node.say("driver 580.105.08 loaded")
    one.source.available()
    one.tick()
    one.tick()

    assert [(event.event, event.detail) for event in one.events] == [
        ("driver-changed", "550.54.15 before, 580.105.08 now")
    ]


def test_devices_that_refuse_after_they_answered(standin, run):
    """BR-24: every call answers UNKNOWN: access lost; again when they answer, all is well."""
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    one = run()
    for _ in range(10):
        one.tick()
    node.say("error * * 999")
    with pytest.raises(errors.AccessLostError):
        one.tick()
    assert one.source.available().state in {"access lost", "failed"}
    node.say("clear")
    assert one.source.available().state == "yes"
    one.tick()


def test_mig_instances_by_their_own_uuids(standin, run):
    """BR-03: a MIG parent has no utilisation and is not idle by that; its instances have names,
    profiles and memory, and its processes belong to instances.
    """
    node = standin(machine.Gpu("h100-80gb-hbm3-mig"))
    one = run()
    (gpu,) = one.tick().values()
    assert gpu.mig_enabled
    assert gpu.utilization_percent is None
    assert gpu.mig
    assert all(part.uuid.startswith("MIG-") for part in gpu.mig)
    assert all(part.profile and part.memory_total_bytes for part in gpu.mig)

    first = gpu.mig[0]
    node.say(f"process 0 pid=4242 memory_bytes={2**30} kind=compute mig=0")
    (gpu,) = one.tick().values()
    assert [(row.pid, row.mig_uuid) for row in gpu.processes] == [(4242, first.uuid)]


def test_junk_in_the_list_of_shares(standin, run):
    """BR-09: records of zeros and thousands of percent beside two real ones: two shares, the
    junk counted.
    """
    node = standin(machine.Gpu(H100))
    one = run()
    node.say(
        f"process 0 pid=100 memory_bytes={2**30} sm=20 kind=compute",
        f"process 0 pid=101 memory_bytes={2**30} sm=30 kind=graphics",
        "junk 0 98",
    )
    (gpu,) = one.tick().values()

    assert [(row.pid, row.kind, row.sm_utilization_percent) for row in gpu.processes] == [
        (100, "compute", 20),
        (101, "graphics", 30),
    ]
    assert one.samples[-1].invalid_count > 0


def test_many_gpus_and_serials_that_are_equal(standin, run):
    """300 GPUs, all with one serial: all there, each under its UUID."""
    standin(*[machine.Gpu("l4", serial="1") for _ in range(300)])
    one = run(settings=config.Nvml(call_limit_ms=10_000))
    gpus = one.tick()

    assert len(gpus) == 300
    assert {gpu.state for gpu in gpus.values()} == {"ok"}


def test_a_name_that_is_no_text(standin, run):
    """BR-15: bytes that are not UTF-8 in a name cost the name, not the GPU."""
    node = standin(machine.Gpu("l4"))
    node.say("set 0 name \\xff\\xfeA")
    one = run()

    assert one.found.state == "yes"
    assert one.tick()


def test_a_sleeping_gpu_is_not_asked(standin, run, tmp_path):
    """BR-19: suspended by sysfs: no call for it in five ticks; asked again when it is active."""
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    one = run(sys_root=str(tmp_path))
    power = tmp_path / "bus/pci/devices" / one.found.gpus[1].pci_bus_id[-12:].lower() / "power"
    power.mkdir(parents=True)
    (power / "control").write_text("auto\n")
    (power / "runtime_status").write_text("suspended\n")
    one.source.available()
    awake, asleep = list(one.tick())
    before = node.calls()["nvmlDeviceGetPowerUsage"]
    for _ in range(5):
        gpus = one.tick()
    assert (gpus[awake].state, gpus[asleep].state) == ("ok", "suspended")
    assert node.calls()["nvmlDeviceGetPowerUsage"] == before + 5

    (power / "runtime_status").write_text("active\n")
    assert one.source.stirs()
    assert one.tick()[asleep].state == "ok"


def test_an_index_is_no_identity(standin, run):
    """BR-17: the order changes and a card is gone: each keeps its UUID, the gone one is lost."""
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    one = run()
    first, second = list(one.tick())
    node.say("order 1,0")
    one.source.available()
    gpus = one.tick()
    assert gpus[first].memory_total_bytes > gpus[second].memory_total_bytes

    node.say("remove 0")
    one.clock.now_s += 11
    gpus = one.tick()
    assert [gpus[first].state, gpus[second].state] in (["ok", "lost"], ["lost", "ok"])


@pytest.mark.parametrize("seed", range(10))
def test_random_errors_and_garbage(standin, run, seed):
    """1,000 ticks each: random calls of two GPUs answer random errors or garbage, and are sound
    again later: never a crash, the GPU that is left alone always whole, no value that cannot be.
    """
    dice = random.Random(seed)
    node = standin(machine.Gpu(H100), machine.Gpu("l4"), machine.Gpu("tesla-t4"))
    one = run()
    *_, sound = list(one.tick())
    codes = [2, 3, 4, 6, 7, 10, 16, 17, 20, 21, 27, 999]
    whole = {name for name in reading.READABLE_FIELDS if name != "energy_method"}
    for _ in range(100):
        symbol = dice.choice(sorted(node.calls()))
        gpu = dice.choice([0, 1])
        node.say(
            dice.choice(
                [
                    f"error {gpu} {symbol} {dice.choice(codes)}",
                    f"garbage {gpu} {symbol} ones",
                    f"garbage {gpu} {symbol} random {dice.randrange(2**31)}",
                    f"clear {gpu}",
                ]
            )
        )
        for _ in range(10):
            gpus = one.tick()
            assert gpus[sound].state == "ok"
            assert not set(gpus[sound].errors) & whole
            for found in gpus.values():
                again = normalize.normalize(
                    reading.RawGpu(
                        uuid=found.uuid,
                        readings={
                            name: value
                            for name in reading.READABLE_FIELDS
                            if (value := getattr(found, name)) is not None
                        },
                    )
                )
                assert again.invalid_count == 0
    assert msgspec.json.encode(one.state.kept)
