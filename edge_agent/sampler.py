"""The tick: start every source, wait half a tick, make one set of records, hand them on.

What is a decision is in `core/record.py` (what to say) and `core/cadence.py` (when to look
again); watching one source is in `reader.py`. Between two ticks the sampler listens: an
event that a source hears of goes out at once, and while all GPUs sleep it asks, without
waking one, whether one stirs.

The clock that runs is CLOCK_BOOTTIME: time in suspend has passed for the GPUs, too.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from edge_agent import reader, telemetry, threads
from edge_agent.core import cadence, reading, record, schedule
from edge_agent.sources import catalog
from wire.sample import Counted, Event, GpuInventory, Sample

WAIT_SHARE: Final = 0.5
UNSAVED_MAX: Final = 1_000

Sink = Callable[[Sequence[Counted], bytes | None], Awaitable[int | None]]
"""Takes records and what must be remembered with them; gives the bytes that will be sent,
None when it could not keep them."""


class Sampler:
    """Takes the samples of one agent and gives them to `sink`.

    `remembered` is what the sink was given last to remember, before a restart; `boot_id`
    names this boot of the machine.
    """

    def __init__(
        self,
        sources: Sequence[catalog.Source],
        *,
        limits: cadence.Limits,
        phase_ms: int,
        readers: threads.Threads,
        say: telemetry.Telemetry,
        sink: Sink,
        status_changed: Callable[[], None],
        latest: Callable[[Sample | Event], None],
        remembered: bytes,
        boot_id: str,
    ) -> None:
        self._readers = [
            reader.Reader(source, tick_ms=limits.tick_ms, threads_=readers, say=say)
            for source in sources
        ]
        self._heralds = [one for one in sources if isinstance(one, catalog.Herald)]
        self._limits = limits
        self._phase_ms = phase_ms
        self._threads = readers
        self._say = say
        self._sink = sink
        self._status_changed = status_changed
        self._latest = latest
        self._state = record.State(
            pace=cadence.Pace(wait_ms=limits.tick_ms),
            kept=record.resume(_recalled(remembered, say), boot_id, _now_ms()),
        )
        self._stored = record.Kept()
        self._spent_bytes = 0
        self._unsupported: dict[str, tuple[str, ...]] = {}
        self._unsaved: list[Event] = []
        self._status_is_new = False
        self._bell = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> None:
        """Tick until cancelled; raises `GiveUpError`."""
        self._loop = asyncio.get_running_loop()
        plan = schedule.Schedule(start_ms=_now_ms() + self._phase_ms, tick_ms=self._limits.tick_ms)
        while True:
            stirred = await self._rest(plan.due_ms)
            taken_ms = _now_ms() if stirred else max(_now_ms(), plan.due_ms)
            await self._tick()
            plan, missed = schedule.after_tick(plan, taken_ms, self._state.pace.wait_ms)
            if missed:
                self._say.ticks_missed(missed)

    def wake(self) -> None:
        """A source has news. May be called from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop may have ended by now
                self._loop.call_soon_threadsafe(self._bell.set)

    @property
    def wait_s(self) -> float:
        """How long it may be until the next tick, in seconds."""
        return self._state.pace.wait_ms / 1000

    def sources(self) -> dict[str, str]:
        """What each source says of itself, for the status."""
        return {one.source.name: one.state_text() for one in self._readers}

    def trouble(self) -> str:
        """What only a new process can mend; empty when there is nothing of that kind."""
        texts = [one.state_text() for one in self._readers if one.needs_new_process]
        return "; ".join(texts)

    def versions(self) -> reading.Availability:
        """The versions that the sources know; the first source that knows one wins."""
        known = [one.availability for one in self._readers]
        libraries: dict[str, str] = {}
        for one in reversed(known):
            libraries.update(one.library_versions)
        return reading.Availability(
            state="yes",
            driver_version=next((one.driver_version for one in known if one.driver_version), None),
            cuda_version=next((one.cuda_version for one in known if one.cuda_version), None),
            library_versions=libraries,
        )

    def inventory(self) -> tuple[GpuInventory, ...]:
        """The GPUs, with what each turned out not to tell."""
        return tuple(
            msgspec.structs.replace(gpu, unsupported=self._unsupported[gpu.uuid])
            if gpu.uuid in self._unsupported
            else gpu
            for one in self._readers
            for gpu in one.inventory
        )

    async def _rest(self, due_ms: int) -> bool:
        """Wait for the next tick, hearing news meanwhile; True when a sleeper stirs before."""
        while (left_ms := due_ms - _now_ms()) > 0:
            watches = self._state.pace.wait_ms > self._limits.tick_ms
            pause_ms = min(left_ms, self._limits.tick_ms) if watches else left_ms
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):
                    await self._bell.wait()
            if self._bell.is_set():
                self._bell.clear()
                await self._hear()
            elif watches and left_ms > pause_ms and await self._stirs():
                return True
        return False

    async def _stirs(self) -> bool:
        sleepers = [
            one.source
            for one in self._readers
            if isinstance(one.source, catalog.Sleeper) and not one.is_busy
        ]
        if not sleepers:
            return False
        ask = self._threads.submit(lambda: any(one.stirs() for one in sleepers))
        job = asyncio.wrap_future(ask)
        await asyncio.wait([job], timeout=self._limits.tick_ms / 1000 * WAIT_SHARE)
        return job.done() and job.result()

    async def _hear(self) -> None:
        events = [event for herald in self._heralds for event in herald.news()]
        if events:
            uuids = record.uuid_of(gpu for one in self._readers for gpu in one.inventory)
            await self._hand_on(record.hear(self._state, events, uuids, self._moment()))

    async def _tick(self) -> None:
        started_s = time.monotonic()
        moment = self._moment()
        for one in self._readers:
            one.start()
            if not one.has_looked:  # who comes later may name what this one finds
                break
        jobs = [one.job for one in self._readers if one.job is not None]
        if jobs:
            await asyncio.wait(jobs, timeout=self._limits.tick_ms / 1000 * WAIT_SHARE)
        looks: list[record.Look] = []
        events: list[Event] = []
        for one in self._readers:
            observations, happened = one.collect(moment.now_unix_ms)
            events += happened
            looks.append(
                record.Look(
                    source=one.source.name, observations=observations, inventory=one.inventory
                )
            )
        self._spent_bytes = 0
        await self._hand_on(record.step(self._state, looks, moment, self._limits), events)
        self._say.ticked(time.monotonic() - started_s)

    async def _hand_on(self, step: record.Step, events: Sequence[Event] = ()) -> None:
        """Tell everyone what a tick, or an event between two, has brought."""
        self._state = step.state
        for uuid, fields in step.unsupported.items():
            if fields != self._unsupported.get(uuid, ()):
                self._unsupported[uuid] = fields
                self._say.fields_unsupported(uuid, fields)
                self._status_is_new = True
        if step.invalid_count:
            self._say.readings_invalid(step.invalid_count)
        records: list[Counted] = [*events, *step.records]
        for one in records:
            if isinstance(one, Sample | Event):
                self._latest(one)
            if isinstance(one, Event):
                code = "" if one.xid is None else f"{one.xid}: "
                self._say.happened(one.event, one.gpu_uuid, f"{code}{one.detail}")
        await self._keep(records)
        told_anew = [one.told_anew() for one in self._readers]
        if self._status_is_new or any(told_anew):
            self._status_is_new = False
            self._status_changed()

    async def _keep(self, records: Sequence[Counted]) -> None:
        """Records, and what must be remembered with them, to the sink.

        Events that the sink could not keep are offered again: they will not be told twice.
        """
        kept = self._state.kept
        is_new = kept != self._stored
        records = [*self._unsaved, *records]
        spent_bytes = await self._sink(records, msgspec.json.encode(kept) if is_new else None)
        if spent_bytes is None:
            events = [one for one in records if isinstance(one, Event)]
            self._unsaved = events[-UNSAVED_MAX:]
            return
        self._unsaved = []
        self._spent_bytes += spent_bytes
        self._stored = kept

    def _moment(self) -> record.Moment:
        return record.Moment(
            now_ms=_now_ms(),
            now_unix_ms=time.time_ns() // 1_000_000,
            spent_bytes=self._spent_bytes,
        )


def _recalled(remembered: bytes, say: telemetry.Telemetry) -> record.Kept:
    """What was remembered; nothing when it cannot be read, which is told."""
    if not remembered:
        return record.Kept()
    try:
        return msgspec.json.decode(remembered, type=record.Kept)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        say.memory_unreadable(str(error))
        return record.Kept()


def _now_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
