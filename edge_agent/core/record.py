"""One tick: from what the sources gave to the records of the contract.

The sources' GPUs of one tick make one sample, whoever read them. What a source gives with
a time of its own (a recording) makes a sample for each of its moments. Events come first,
they are more urgent. What must outlast the process is `State.kept`: which GPUs there were,
and which XIDs were told.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from edge_agent.core import cadence, changes, idle, normalize, reading, xids
from wire.sample import Counted, Event, EventName, Gpu, GpuInventory, Sample

CLOCK_STEP_MS: Final = 2_000


class Kept(Struct, frozen=True, kw_only=True):
    """What is remembered over a restart; `known` by source and UUID."""

    known: dict[str, dict[str, changes.Known]] = {}
    ledger: xids.Ledger = xids.Ledger()


class State(Struct, frozen=True, kw_only=True):
    """All that one tick leaves to the next."""

    pace: cadence.Pace
    kept: Kept = Kept()
    tallies: Mapping[str, idle.Tally] = {}
    sampled_ms: int | None = None
    clock_offset_ms: int | None = None


class Look(Struct, frozen=True, kw_only=True):
    """What one source gave this time, and the GPUs it says it has."""

    source: str
    observations: Sequence[reading.Observation] = ()
    inventory: Sequence[GpuInventory] = ()


class Moment(Struct, frozen=True, kw_only=True):
    """When, by the clock that runs and by the wall clock; what was written since the last."""

    now_ms: int
    now_unix_ms: int
    spent_bytes: int = 0


class Step(Struct, frozen=True, kw_only=True):
    """The records, in the order in which they are to be written, and what was noticed."""

    state: State
    records: tuple[Counted, ...] = ()
    unsupported: Mapping[str, tuple[str, ...]] = {}
    invalid_count: int = 0


def resume(kept: Kept, boot_id: str, now_ms: int) -> Kept:
    """What was remembered, in a new process and perhaps after a reboot."""
    return replace(kept, ledger=xids.resume(kept.ledger, boot_id=boot_id, now_ms=now_ms))


def step(state: State, looks: Sequence[Look], moment: Moment, limits: cadence.Limits) -> Step:
    """What this tick has to say, and when the next should be."""
    tick = _Tick(state, moment, limits)
    for look in looks:
        for observation in look.observations:
            tick.take(look.source, observation)
    return tick.done(uuid_of(gpu for look in looks for gpu in look.inventory))


def uuid_of(gpus: Iterable[GpuInventory]) -> dict[str, str]:
    """PCI bus id to UUID."""
    return {gpu.pci_bus_id: gpu.uuid for gpu in gpus if gpu.pci_bus_id}


def hear(
    state: State,
    events: Sequence[reading.RawEvent],
    uuids: Mapping[str, str],
    moment: Moment,
) -> Step:
    """Events between two ticks."""
    found = xids.step(
        state.kept.ledger,
        events,
        uuid_of=uuids,
        now_ms=moment.now_ms,
        now_unix_ms=moment.now_unix_ms,
    )
    kept = replace(state.kept, ledger=found.ledger)
    return Step(state=replace(state, kept=kept), records=found.events)


class _Tick:
    """A tick being put together."""

    def __init__(self, state: State, moment: Moment, limits: cadence.Limits) -> None:
        self._state = state
        self._moment = moment
        self._limits = limits
        self._pace = state.pace
        self._known = dict(state.kept.known)
        self._tallies = dict(state.tallies)
        self._gpus: dict[str, Gpu] = {}
        self._has_sample = False
        self._events: list[Event] = []
        self._raw_events: list[reading.RawEvent] = []
        self._samples: list[Sample] = []
        self._unsupported: dict[str, tuple[str, ...]] = {}
        self._invalid_count = 0

    def take(self, source: str, observation: reading.Observation) -> None:
        """Add what one source observed at one moment."""
        own_unix_ms = observation.ts_unix_ms
        ts_unix_ms = self._moment.now_unix_ms if own_unix_ms is None else own_unix_ms
        self._raw_events += [
            event if event.ts_unix_ms is not None else replace(event, ts_unix_ms=ts_unix_ms)
            for event in observation.events
        ]
        gpus, invalid_count = self._normalized(observation.gpus)
        compared = changes.compare(
            self._known.get(source, {}),
            gpus,
            complete=observation.complete,
            ts_unix_ms=ts_unix_ms,
        )
        self._known[source] = dict(compared.known)
        self._events += compared.events
        at_ms = self._moment.now_ms if own_unix_ms is None else own_unix_ms
        counted = {gpu.uuid: self._counted(gpu, at_ms) for gpu in compared.gpus}
        if own_unix_ms is not None:
            gpus = tuple(counted.values())
            self._samples.append(self._sample(ts_unix_ms, gpus, invalid_count))
        else:
            self._invalid_count += invalid_count
            for uuid, gpu in counted.items():
                self._gpus.setdefault(uuid, gpu)
            self._has_sample = self._has_sample or observation.complete or bool(counted)

    def done(self, uuids: Mapping[str, str]) -> Step:
        """The records of the tick."""
        moment = self._moment
        heard = hear(self._state, self._raw_events, uuids, moment)
        offset_ms, stepped = self._clock()
        if self._has_sample:
            gpus = tuple(self._gpus.values())
            self._pace = self._paced(gpus)
            self._samples.append(self._sample(moment.now_unix_ms, gpus, self._invalid_count))
        state = State(
            pace=self._pace,
            kept=replace(heard.state.kept, known=self._known),
            tallies=self._tallies,
            sampled_ms=moment.now_ms if self._samples else self._state.sampled_ms,
            clock_offset_ms=offset_ms,
        )
        return Step(
            state=state,
            records=(*heard.records, *stepped, *self._events, *self._samples),
            unsupported=self._unsupported,
            invalid_count=self._invalid_count,
        )

    def _normalized(self, raw: Sequence[reading.RawGpu]) -> tuple[tuple[Gpu, ...], int]:
        gpus: list[Gpu] = []
        invalid_count = 0
        for one in raw:
            found = normalize.normalize(one)
            gpus.append(found.gpu)
            invalid_count += found.invalid_count
            if one.state == "ok":
                self._unsupported[found.gpu.uuid] = found.unsupported
        return tuple(gpus), invalid_count

    def _counted(self, gpu: Gpu, at_ms: int) -> Gpu:
        self._tallies[gpu.uuid], counted = idle.step(self._tallies.get(gpu.uuid), gpu, at_ms)
        return counted

    def _paced(self, gpus: tuple[Gpu, ...]) -> cadence.Pace:
        sampled_ms = self._state.sampled_ms
        since_ms = 0 if sampled_ms is None else self._moment.now_ms - sampled_ms
        spent_bytes = self._moment.spent_bytes
        return cadence.step(
            self._pace, self._limits, gpus, since_ms=since_ms, spent_bytes=spent_bytes
        )

    def _sample(self, ts_unix_ms: int, gpus: tuple[Gpu, ...], invalid_count: int) -> Sample:
        sampled_ms = self._state.sampled_ms
        is_first = sampled_ms is None or self._samples
        return Sample(
            seq=1,
            ts_unix_ms=ts_unix_ms,
            interval_ms=0 if is_first else self._moment.now_ms - (sampled_ms or 0),
            cadence_ms=self._pace.wait_ms,
            gpus=gpus,
            invalid_count=invalid_count,
        )

    def _clock(self) -> tuple[int, tuple[Event, ...]]:
        """Wall clock minus monotonic clock, and an event when it jumped since the last tick."""
        moment = self._moment
        offset_ms = moment.now_unix_ms - moment.now_ms
        before_ms = self._state.clock_offset_ms
        if before_ms is None or abs(offset_ms - before_ms) < CLOCK_STEP_MS:
            return offset_ms, ()
        by_s = (offset_ms - before_ms) / 1000
        way = "forward" if by_s > 0 else "back"
        detail = f"the wall clock was set {way} by {abs(by_s):.1f} s"
        return offset_ms, (event("clock-stepped", detail, moment.now_unix_ms),)


def event(name: EventName, detail: str, now_unix_ms: int) -> Event:
    """An event of the whole node."""
    return Event(seq=1, ts_unix_ms=now_unix_ms, event=name, detail=detail)
