"""The tick, with sources that are late, hang, fail, go and come back."""

import asyncio
import threading

import pytest
from prometheus_client import CollectorRegistry

from edge_agent import errors, reader, sampler, telemetry, threads
from edge_agent.core import cadence, reading
from wire.sample import Event, GpuInventory, Sample

TICK_MS = 50


class Fake:
    """A source that does what `behave` says."""

    finished = False

    def __init__(self, name="fake", uuids=("A",)) -> None:
        self.name = name
        self.uuids = list(uuids)
        self.behave = lambda: None
        self.available_after = threading.Event()
        self.available_after.set()
        self.state = "yes"
        self.reads = 0
        self.looks = 0
        self.readings = {"utilization_percent": 5}

    def available(self) -> reading.Availability:
        self.available_after.wait()
        self.looks += 1
        return reading.Availability(
            state=self.state,
            driver_version="1",
            gpus=tuple(GpuInventory(uuid=uuid, vendor="simulated") for uuid in self.uuids),
        )

    def read(self):
        self.reads += 1
        self.behave()
        gpus = tuple(reading.RawGpu(uuid=uuid, readings=self.readings) for uuid in self.uuids)
        return (reading.Observation(gpus=gpus),)

    def close(self) -> None: ...


class Run:
    """A sampler under way; `records` is what it gave."""

    def __init__(self, *sources, remembered=b"", tick_ms=TICK_MS) -> None:
        self.records = []
        self.status_changes = 0
        self.readers = threads.Threads("read", 8)
        self.registry = CollectorRegistry()
        self.sampler = sampler.Sampler(
            sources,
            limits=cadence.Limits(tick_ms=tick_ms, idle_ms=tick_ms, asleep_ms=40 * tick_ms),
            phase_ms=0,
            readers=self.readers,
            say=telemetry.Telemetry(telemetry.Metrics(self.registry), "demo", "edge-01"),
            sink=self._sink,
            status_changed=self._changed,
            latest=lambda _one: None,
            remembered=remembered,
            boot_id="boot-1",
        )
        self.memory = remembered
        self.disk_is_full = False

    async def _sink(self, records, memory) -> int | None:
        if self.disk_is_full:
            return None
        self.records += records
        self.memory = self.memory if memory is None else memory
        return 100 * len(records)

    def _changed(self) -> None:
        self.status_changes += 1

    def samples(self):
        return [record for record in self.records if isinstance(record, Sample)]

    def events(self):
        return [record.event for record in self.records if isinstance(record, Event)]

    async def until(self, happened) -> None:
        async with asyncio.timeout(4):
            while not happened():  # noqa: ASYNC110 - no event for each question
                await asyncio.sleep(0.005)


@pytest.fixture
async def start():
    tasks, runs = [], []

    def begin(*sources, **more):
        run = Run(*sources, **more)
        run.task = asyncio.ensure_future(run.sampler.run())
        tasks.append(run.task)
        runs.append(run)
        return run

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for run in runs:
        run.readers.close()


async def test_each_tick_is_one_sample(start):
    """One sample a tick, the interval from the monotonic clock, the first without one."""
    run = start(Fake())
    await run.until(lambda: len(run.samples()) >= 5)
    found = run.samples()

    assert found[0].interval_ms == 0
    assert all(20 <= one.interval_ms <= 150 for one in found[1:])
    assert found[0].gpus[0].utilization_percent == 5
    assert run.events() == []


async def test_the_wall_clock_may_step_back(start, monkeypatch):
    """BR-43: the wall clock set back 12 h: samples go on, intervals stay those of time passed."""
    run = start(Fake())
    await run.until(lambda: len(run.samples()) >= 3)
    real = sampler.time.time_ns
    monkeypatch.setattr(sampler.time, "time_ns", lambda: real() - 12 * 3600 * 10**9)
    count = len(run.samples())
    await run.until(lambda: len(run.samples()) >= count + 3)
    found = run.samples()

    assert found[-1].ts_unix_ms < found[0].ts_unix_ms
    assert all(0 <= one.interval_ms <= 150 for one in found)


async def test_a_read_that_hangs_is_told_once_and_takes_one_thread(start):
    """BR-23: one `source-failed` within two ticks, the other source goes on, no thread a tick;
    when the read returns, one `source-back`."""
    gate = threading.Event()
    hanging, sound = Fake("hanging", ["H"]), Fake("sound", ["S"])
    run = start(hanging, sound)
    await run.until(lambda: hanging.reads >= 2)
    hanging.behave = lambda: gate.wait(5)
    await run.until(lambda: "source-failed" in run.events())
    seen, used = len(run.samples()), run.readers.count
    await run.until(lambda: len(run.samples()) >= seen + 10)

    assert run.events() == ["source-failed"]
    assert run.readers.count <= used + 1
    assert run.sampler.sources()["hanging"] == "hung"
    assert run.status_changes >= 2
    hanging.behave = lambda: None
    gate.set()
    await run.until(lambda: run.events() == ["source-failed", "source-back"])


async def test_a_source_that_fails_is_opened_again_and_told_once(start, monkeypatch):
    """A `SourceError` is one event, not one a tick; the source is looked at again and is back."""
    monkeypatch.setattr(reader, "LOOK_AGAIN_S", 0.1)
    source = Fake()
    run = start(source)
    await run.until(run.samples)

    def fail():
        raise errors.SourceError("driver gone")

    source.behave = fail
    await run.until(lambda: source.looks >= 4)
    assert run.events() == ["source-failed"]
    source.behave = lambda: None
    await run.until(lambda: len(run.events()) == 2)

    assert run.events() == ["source-failed", "source-back"]


async def test_no_library_is_idle_and_looked_for_again(start, monkeypatch):
    """BR-28: no library: no sample, no event, a status that says so; sampling starts by itself."""
    monkeypatch.setattr(reader, "LOOK_AGAIN_S", 0.1)
    source = Fake()
    source.state = "no library"
    run = start(source)
    await run.until(lambda: source.looks >= 3)
    assert run.records == []
    assert run.sampler.sources() == {"fake": "no library"}
    source.state = "yes"
    await run.until(run.samples)

    assert run.sampler.sources() == {"fake": "yes"}


async def test_a_bug_in_a_source_is_not_swallowed(start):
    """Anything but a `SourceError` is a fault of ours: it ends the agent, which is started anew."""
    source = Fake()
    source.behave = lambda: 1 // 0
    run = Run(source)
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(run.sampler.run(), 3)
    run.readers.close()


async def test_unsupported_fields_are_listed_once(start):
    """What a GPU cannot tell stands in the inventory; the status changes once for it."""
    source = Fake()
    source.readings = {"utilization_percent": 5, "energy_mj": reading.UNSUPPORTED}
    run = start(source)
    await run.until(lambda: len(run.samples()) >= 5)

    assert run.sampler.inventory()[0].unsupported == ("energy_mj",)
    assert run.status_changes == 1
    assert run.sampler.versions().driver_version == "1"


async def test_a_gpu_that_vanishes_is_lost_by_its_uuid(start):
    """BR-17, BR-21: A is gone from the driver's list: one event, then only its mark in samples."""
    source = Fake(uuids=["A", "B"])
    run = start(source)
    await run.until(run.samples)
    source.uuids = ["B"]
    count = len(run.samples())
    await run.until(lambda: len(run.samples()) >= count + 4)

    assert run.events() == ["gpu-lost"]
    assert {gpu.uuid: gpu.state for gpu in run.samples()[-1].gpus} == {"A": "lost", "B": "ok"}


async def test_a_source_that_is_finished_is_left_alone(start):
    """The end of a recording: said in the status, read no more."""
    source = Fake()
    run = start(source)
    source.behave = lambda: setattr(source, "finished", True)
    await run.until(lambda: source.finished and run.sampler.sources()["fake"] == "finished")
    reads = source.reads
    await asyncio.sleep(0.15)

    assert source.reads == reads


async def test_all_sources_of_a_tick_make_one_sample(start):
    """An NVIDIA and an AMD card of one node stand in one sample, whoever read them."""
    run = start(Fake("nvml", ["N1", "N2"]), Fake("drm", ["A1"]))
    await run.until(lambda: len(run.samples()) >= 3)

    assert [gpu.uuid for gpu in run.samples()[2].gpus] == ["N1", "N2", "A1"]


async def test_a_late_source_does_not_hold_up_the_others(start):
    """BR-23: one source hangs: the samples go on with the GPUs of the other."""
    gate = threading.Event()
    stuck, sound = Fake("nvml", ["N"]), Fake("drm", ["A"])
    run = start(stuck, sound)
    await run.until(lambda: len(run.samples()) >= 2)
    stuck.behave = gate.wait
    count = len(run.samples())
    await run.until(lambda: len(run.samples()) >= count + 6)
    gate.set()

    assert [gpu.uuid for gpu in run.samples()[-1].gpus] == ["A"]
    assert run.events() == ["source-failed"]


class Crier(Fake):
    """A source that hears of events between two reads."""

    def __init__(self) -> None:
        super().__init__()
        self.heard = []

    def news(self):
        heard, self.heard = self.heard, []
        return heard


async def test_news_does_not_wait_for_the_tick(start):
    """BR-32: an XID between two ticks goes out at once, with what the catalogue knows of it."""
    source = Crier()
    run = start(source, tick_ms=3_000)
    await run.until(run.samples)
    source.heard.append(reading.RawEvent(event="xid", gpu_uuid="A", xid=79))
    threading.Thread(target=run.sampler.wake).start()
    await run.until(run.events)
    event = next(one for one in run.records if isinstance(one, Event))

    assert len(run.samples()) == 1
    assert (event.xid, event.severity, event.xid_class) == (79, "fatal", "hardware")


class Sleepy(Fake):
    """A source whose GPUs are suspended until they stir."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep = True

    def read(self):
        self.reads += 1
        state = "suspended" if self.asleep else "ok"
        return (reading.Observation(gpus=(reading.RawGpu(uuid="A", state=state),)),)

    def stirs(self) -> bool:
        return not self.asleep


async def test_a_sleeper_is_left_alone_until_it_stirs(start, monkeypatch):
    """BR-19: suspended GPUs are looked at rarely, and read at once when one is awake."""
    monkeypatch.setattr(cadence, "CALM_MS", 100)
    source = Sleepy()
    run = start(source)
    await run.until(lambda: run.samples() and run.samples()[-1].cadence_ms == 40 * TICK_MS)
    reads = source.reads
    await asyncio.sleep(6 * TICK_MS / 1000)
    assert source.reads == reads
    source.asleep = False
    await run.until(lambda: run.samples()[-1].gpus[0].state == "ok")

    assert source.reads <= reads + 2


@pytest.mark.parametrize(
    ("error", "event"),
    [
        (errors.AccessLostError("Unknown Error"), "gpu-access-lost"),
        (errors.DriverMismatchError("library 550, module 580"), "driver-mismatch"),
    ],
    ids=["access lost", "driver mismatch"],
)
async def test_what_needs_a_new_process_ends_this_one(start, monkeypatch, error, event):
    """BR-24, BR-25: told once, tried again with growing waits, then the agent gives up."""
    monkeypatch.setattr(reader, "MEND_AGAIN_S", (0.01,) * 4)
    source = Fake()
    run = start(source)
    await run.until(run.samples)

    def refuse():
        raise error

    source.behave = refuse
    await run.until(run.events)
    assert str(error) in run.sampler.trouble()
    await run.until(run.task.done)

    assert isinstance(run.task.exception(), errors.GiveUpError)
    assert run.events() == [event]
    assert source.looks == 1 + reader.TRIES_MAX


async def test_devices_that_come_back_in_time_do_not_end_it(start, monkeypatch):
    """BR-24: access comes back at the third try: the agent goes on and says so."""
    monkeypatch.setattr(reader, "MEND_AGAIN_S", (0.01,) * 4)
    source = Fake()
    run = start(source)
    failures = iter([errors.AccessLostError("Unknown Error")] * 3)

    def refuse_three_times():
        for failure in failures:
            raise failure

    source.behave = refuse_three_times
    await run.until(lambda: len(run.samples()) >= 3)

    assert run.events() == ["gpu-access-lost", "source-back"]
    assert run.sampler.trouble() == ""


async def test_a_card_that_did_not_survive_a_reboot_is_missed(start):
    """BR-17: A and B before, only B after the restart: A is lost by its UUID, told once."""
    before = start(Fake(uuids=["A", "B"]))
    await before.until(before.samples)
    after = start(Fake(uuids=["B"]), remembered=before.memory)
    await after.until(lambda: len(after.samples()) >= 3)
    again = start(Fake(uuids=["B"]), remembered=after.memory)
    await again.until(lambda: len(again.samples()) >= 3)

    assert [(gpu.uuid, gpu.state) for gpu in after.samples()[0].gpus] == [
        ("B", "ok"),
        ("A", "lost"),
    ]
    assert (after.events(), again.events()) == (["gpu-lost"], [])


async def test_a_memory_that_cannot_be_read_is_no_reason_to_stop(start):
    """Rubbish where the memory was: the agent starts as a new one."""
    run = start(Fake(), remembered=b"\x00rubbish")
    await run.until(run.samples)

    assert run.events() == []


async def test_events_wait_for_a_disk_that_takes_them(start):
    """Two XIDs while the disk is full: both are told when it takes records again, each once."""
    source = Crier()
    run = start(source)
    await run.until(run.samples)
    run.disk_is_full = True
    for xid in (48, 79):
        source.heard.append(reading.RawEvent(event="xid", gpu_uuid="A", xid=xid))
        run.sampler.wake()
        await run.until(lambda: not source.heard)
    run.disk_is_full = False
    count = len(run.samples())
    await run.until(lambda: len(run.samples()) > count + 2)

    assert [one.xid for one in run.records if isinstance(one, Event)] == [48, 79]


async def test_a_source_that_names_gpus_is_asked_before_those_that_only_hear(start):
    """BR-33: an XID of the boot, read from the log, goes out with its GPU's UUID."""
    gate = threading.Event()
    namer, crier = Fake(), Crier()
    namer.available_after = gate
    crier.name, crier.uuids = "kmsg", []
    run = start(namer, crier)
    await asyncio.sleep(4 * TICK_MS / 1000)
    assert crier.looks == 0
    gate.set()
    await run.until(lambda: crier.looks == 1)
