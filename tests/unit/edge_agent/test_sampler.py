"""The tick, with sources that are late, hang, fail, go and come back."""

import asyncio
import threading

import pytest
from prometheus_client import CollectorRegistry

from edge_agent import errors, sampler, telemetry, threads
from edge_agent.core import reading
from wire.sample import Event, GpuInventory, Sample

TICK_MS = 50


class Fake:
    """A source that does what `behave` says."""

    finished = False

    def __init__(self, name="fake", uuids=("A",)) -> None:
        self.name = name
        self.uuids = list(uuids)
        self.behave = lambda: None
        self.state = "yes"
        self.reads = 0
        self.looks = 0
        self.readings = {"utilization_percent": 5}

    def available(self) -> reading.Availability:
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

    def __init__(self, *sources) -> None:
        self.records = []
        self.status_changes = 0
        self.readers = threads.Threads("read", 8)
        self.registry = CollectorRegistry()
        self.sampler = sampler.Sampler(
            sources,
            tick_ms=TICK_MS,
            phase_ms=0,
            readers=self.readers,
            say=telemetry.Telemetry(telemetry.Metrics(self.registry), "demo", "edge-01"),
            sink=self._sink,
            status_changed=self._changed,
            latest=lambda _sample: None,
        )

    async def _sink(self, records) -> None:
        self.records += records

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

    def begin(*sources):
        run = Run(*sources)
        tasks.append(asyncio.ensure_future(run.sampler.run()))
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
    monkeypatch.setattr(sampler, "LOOK_AGAIN_S", 0.1)
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
    monkeypatch.setattr(sampler, "LOOK_AGAIN_S", 0.1)
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
    assert run.sampler.driver_version() == "1"


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
