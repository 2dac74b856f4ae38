"""The tick: read every source, compare with before, and make the tick's records.

Each source has one read under way at most, on a thread of its own while it lasts. A
source that answers within half a tick is in this tick's sample; one that is late is in
the next; one that is later than that is reported once (`source-failed`, so within two
ticks) and left alone until it answers (`source-back`). So a driver that hangs costs
one thread, never the tick, and never another source.

A source that is not available is asked again once a minute, which is cheap, and says
so in the status, which is once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from edge_agent import telemetry, threads
from edge_agent.core import changes, normalize, reading, schedule
from edge_agent.errors import SourceError
from edge_agent.sources import catalog
from wire.sample import Counted, Event, Gpu, GpuInventory, Sample

LOOK_AGAIN_S: Final = 60.0
LOOK_LIMIT_MS: Final = 15_000  # opening a driver or parsing a recording takes its time
WAIT_SHARE: Final = 0.5

Sink = Callable[[Sequence[Counted]], Awaitable[None]]


class Reading:
    """One source and where it stands."""

    def __init__(self, source: catalog.Source) -> None:
        self.source = source
        self.availability = reading.Availability(state="failed", detail="not asked yet")
        self.looked_s = float("-inf")
        self.job: asyncio.Future[Sequence[reading.Observation]] | None = None
        self.is_looking = False
        self.started_s = 0.0
        self.started_unix_ms = 0
        self.is_hung = False
        self.is_failing = False
        self.said_finished = False
        self.known: dict[str, changes.Known] = {}
        self.sampled_s: float | None = None


class Sampler:
    """Takes the samples of one agent and gives them to `sink`, once a tick."""

    def __init__(
        self,
        sources: Sequence[catalog.Source],
        *,
        tick_ms: int,
        phase_ms: int,
        readers: threads.Threads,
        say: telemetry.Telemetry,
        sink: Sink,
        status_changed: Callable[[], None],
        latest: Callable[[Sample], None],
    ) -> None:
        self._readings = [Reading(source) for source in sources]
        self._tick_ms = tick_ms
        self._phase_ms = phase_ms
        self._readers = readers
        self._say = say
        self._sink = sink
        self._status_changed = status_changed
        self._latest = latest
        self._unsupported: dict[str, tuple[str, ...]] = {}
        self._status_is_new = False

    async def run(self) -> None:
        """Tick until cancelled."""
        plan = schedule.Schedule(start_ms=_now_ms() + self._phase_ms, tick_ms=self._tick_ms)
        while True:
            await asyncio.sleep(max(0.0, (plan.due_ms - _now_ms()) / 1000))
            plan, missed = schedule.after_tick(plan, max(_now_ms(), plan.due_ms))
            if missed:
                self._say.ticks_missed(missed)
            await self._tick()

    def sources(self) -> dict[str, str]:
        """What each source says of itself, for the status."""
        return {one.source.name: _state_text(one) for one in self._readings}

    def driver_version(self) -> str | None:
        """The first driver version that a source knows."""
        versions = (one.availability.driver_version for one in self._readings)
        return next((version for version in versions if version), None)

    def inventory(self) -> tuple[GpuInventory, ...]:
        """The GPUs, with what each turned out not to tell."""
        found = [gpu for one in self._readings for gpu in one.availability.gpus]
        return tuple(
            GpuInventory(
                uuid=gpu.uuid,
                vendor=gpu.vendor,
                name=gpu.name,
                serial=gpu.serial,
                pci_bus_id=gpu.pci_bus_id,
                memory_total_bytes=gpu.memory_total_bytes,
                unsupported=self._unsupported.get(gpu.uuid, gpu.unsupported),
            )
            for gpu in found
        )

    async def _tick(self) -> None:
        now_s, wall_ms = time.monotonic(), time.time_ns() // 1_000_000
        for one in self._readings:
            self._start(one, now_s, wall_ms)
        jobs = [one.job for one in self._readings if one.job is not None and not one.is_hung]
        if jobs:
            await asyncio.wait(jobs, timeout=self._tick_ms / 1000 * WAIT_SHARE)
        records: list[Counted] = []
        for one in self._readings:
            records += self._collect(one, wall_ms)
        for record in records:
            if isinstance(record, Sample):
                self._latest(record)
            elif isinstance(record, Event):
                self._say.happened(record.event, record.gpu_uuid, record.detail)
        await self._sink(records)
        if self._status_is_new:
            self._status_is_new = False
            self._status_changed()

    def _start(self, one: Reading, now_s: float, wall_ms: int) -> None:
        """Begin a read, or a look whether there is something to read."""
        if one.job is not None or one.source.finished:
            return
        is_ready = one.availability.state == "yes"
        if not is_ready and now_s - one.looked_s < LOOK_AGAIN_S:
            return
        one.started_s, one.started_unix_ms = now_s, wall_ms
        one.is_looking = not is_ready
        call = one.source.read if is_ready else self._look(one)
        one.job = asyncio.wrap_future(self._readers.submit(call))

    def _look(self, one: Reading) -> Callable[[], Sequence[reading.Observation]]:
        """Ask the source whether it can be read, and read it at once when it can."""

        def look() -> Sequence[reading.Observation]:
            found = one.source.available()
            observations = one.source.read() if found.state == "yes" else ()
            one.availability = found
            return observations

        one.looked_s = time.monotonic()
        return look

    def _collect(self, one: Reading, wall_ms: int) -> list[Counted]:
        """The records that this source gives to this tick."""
        job = one.job
        if job is None:
            return []
        if not job.done():
            return self._watch(one, wall_ms)
        one.job = None
        records: list[Counted] = []
        if one.is_hung:
            one.is_hung = False
            self._say.source_back(one.source.name)
            self._status_is_new = True
            records.append(_source_event("source-back", one, wall_ms, ""))
        if one.is_looking:
            self._looked(one)
        try:
            observations = job.result()
        except SourceError as error:
            return records + self._failed(one, str(error), wall_ms)
        if one.availability.state == "yes":
            self._say.source_read(one.source.name, time.monotonic() - one.started_s)
            if one.is_failing:
                one.is_failing = False
                records.append(_source_event("source-back", one, wall_ms, ""))
        for observation in observations:
            records += self._records(one, observation)
        if one.source.finished and not one.said_finished:
            one.said_finished = True
            self._say.source_finished(one.source.name)
            self._status_is_new = True
        return records

    def _watch(self, one: Reading, wall_ms: int) -> list[Counted]:
        """A read that is under way: say so, once, when it takes too long."""
        waited_ms = int((time.monotonic() - one.started_s) * 1000)
        limit_ms = max(self._tick_ms, LOOK_LIMIT_MS) if one.is_looking else self._tick_ms
        if one.is_hung or waited_ms < limit_ms:
            return []
        one.is_hung = True
        self._say.source_hangs(one.source.name, waited_ms)
        self._status_is_new = True
        detail = f"no answer for {waited_ms} ms"
        return [_source_event("source-failed", one, wall_ms, detail)]

    def _looked(self, one: Reading) -> None:
        self._say.source_state(one.source.name, one.availability.state, one.availability.detail)
        self._status_is_new = True

    def _failed(self, one: Reading, error: str, wall_ms: int) -> list[Counted]:
        """A read that gave nothing: the source is looked at again before the next read."""
        first = not one.is_failing
        one.is_failing = True
        one.availability = reading.Availability(
            state="failed",
            detail=error,
            driver_version=one.availability.driver_version,
            gpus=one.availability.gpus,
        )
        self._say.source_read_failed(one.source.name, error, first=first)
        if not first:
            return []
        self._status_is_new = True
        return [_source_event("source-failed", one, wall_ms, error)]

    def _records(self, one: Reading, observation: reading.Observation) -> list[Counted]:
        """A sample and the events that come with it; events first, they are more urgent."""
        ts_unix_ms = observation.ts_unix_ms or one.started_unix_ms
        records: list[Counted] = [
            Event(
                seq=1,
                ts_unix_ms=event.ts_unix_ms or ts_unix_ms,
                event=event.event,
                gpu_uuid=event.gpu_uuid,
                xid=event.xid,
                count=event.count,
                detail=normalize.text(event.detail),
            )
            for event in observation.events
        ]
        gpus, invalid_count = self._normalized(observation.gpus)
        compared = changes.compare(
            one.known, gpus, complete=observation.complete, ts_unix_ms=ts_unix_ms
        )
        one.known = dict(compared.known)
        interval_s = 0.0 if one.sampled_s is None else one.started_s - one.sampled_s
        one.sampled_s = one.started_s
        sample = Sample(
            seq=1,
            ts_unix_ms=ts_unix_ms,
            interval_ms=round(interval_s * 1000),
            gpus=compared.gpus,
            invalid_count=invalid_count,
        )
        return [*records, *compared.events, sample]

    def _normalized(self, raw: Iterable[reading.RawGpu]) -> tuple[tuple[Gpu, ...], int]:
        gpus: list[Gpu] = []
        invalid_count = 0
        for one in raw:
            found = normalize.normalize(one)
            gpus.append(found.gpu)
            invalid_count += found.invalid_count
            if one.state == "ok" and found.unsupported != self._unsupported.get(one.uuid, ()):
                self._unsupported[one.uuid] = found.unsupported
                self._say.fields_unsupported(one.uuid, found.unsupported)
                self._status_is_new = True
        if invalid_count:
            self._say.readings_invalid(invalid_count)
        return tuple(gpus), invalid_count


def _state_text(one: Reading) -> str:
    if one.is_hung:
        return "hung"
    if one.source.finished:
        return "finished"
    detail = one.availability.detail
    return f"{one.availability.state}: {detail}" if detail else one.availability.state


def _source_event(name: str, one: Reading, wall_ms: int, detail: str) -> Event:
    text = normalize.text(f"{one.source.name}: {detail}" if detail else one.source.name)
    is_back = name == "source-back"
    return Event(
        seq=1,
        ts_unix_ms=wall_ms,
        event="source-back" if is_back else "source-failed",
        detail=text,
    )


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
