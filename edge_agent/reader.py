"""One source under watch.

A source has one read under way at most, on a thread of its own while it lasts. What
answers in time is in this tick; what is later than a tick (later than its own patience,
for a source that watches itself) is reported once (`source-failed`) and left alone until
it answers (`source-back`). So a driver that hangs costs one thread, never the tick, and
never another source.

A source that is not available is asked again once a minute, which is cheap, and says so
in the status, which is once. Two states cannot mend themselves in this process: a library
that is not that of the loaded driver, and devices that were readable and answer nothing
any more. They are told as events, looked at again with growing waits, and after
`TRIES_MAX` looks the reader gives up, so that a supervisor starts a process that loads
fresh libraries and gets its devices anew. The spool is not touched by that.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from edge_agent import telemetry, threads
from edge_agent.core import checks, reading, record
from edge_agent.errors import GiveUpError, SourceError
from edge_agent.sources import catalog
from wire.sample import Event, EventName, GpuInventory

LOOK_AGAIN_S: Final = 60.0
LOOK_LIMIT_MS: Final = 15_000  # opening a driver or parsing a recording takes its time
MEND_AGAIN_S: Final = (5.0, 10.0, 20.0, 40.0)
TRIES_MAX: Final = len(MEND_AGAIN_S) + 1
NEEDS_NEW_PROCESS: Final[Mapping[str, EventName]] = {
    "driver mismatch": "driver-mismatch",
    "access lost": "gpu-access-lost",
}


class Reader:
    """One source and where it stands."""

    def __init__(
        self,
        source: catalog.Source,
        *,
        tick_ms: int,
        threads_: threads.Threads,
        say: telemetry.Telemetry,
    ) -> None:
        self.source = source
        self._status_is_new = False
        self.availability = reading.Availability(state="failed", detail="not asked yet")
        self._limit_ms = tick_ms
        if isinstance(source, catalog.SelfWatched):
            self._limit_ms = max(tick_ms, source.patience_ms)
        self._threads = threads_
        self._say = say
        self._looked_s = float("-inf")
        self._job: asyncio.Future[Sequence[reading.Observation]] | None = None
        self._is_looking = False
        self._started_s = 0.0
        self._is_hung = False
        self._is_failing = False
        self._said_finished = False
        self._tries = 0

    @property
    def inventory(self) -> tuple[GpuInventory, ...]:
        """The GPUs that the source says it has."""
        return self.availability.gpus

    @property
    def job(self) -> "asyncio.Future[Sequence[reading.Observation]] | None":
        """The read under way that is worth waiting for."""
        return None if self._is_hung else self._job

    @property
    def has_looked(self) -> bool:
        """Whether it was seen what the source has, or that it does not say."""
        return self._is_hung or (self._looked_s > float("-inf") and not self._is_looking)

    @property
    def is_busy(self) -> bool:
        """Whether a read is under way."""
        return self._job is not None

    @property
    def needs_new_process(self) -> bool:
        """Whether the source cannot go on in this process."""
        return self.availability.state in NEEDS_NEW_PROCESS

    def told_anew(self) -> bool:
        """Whether the status says something else since this was last asked."""
        was_new, self._status_is_new = self._status_is_new, False
        return was_new

    def state_text(self) -> str:
        """For the status."""
        if self._is_hung:
            return "hung"
        if self.source.finished:
            return "finished"
        state, detail = self.availability.state, self.availability.detail
        return f"{state}: {detail}" if detail else state

    def start(self) -> None:
        """Begin a read, or a look whether there is something to read."""
        if self._job is not None or self.source.finished:
            return
        now_s = time.monotonic()
        is_ready = self.availability.state == "yes"
        if not is_ready and now_s - self._looked_s < self._look_again_s():
            return
        self._started_s = now_s
        self._is_looking = not is_ready
        self._job = asyncio.wrap_future(
            self._threads.submit(self.source.read if is_ready else self._look())
        )

    def collect(self, now_unix_ms: int) -> tuple[Sequence[reading.Observation], list[Event]]:
        """What the source gives to this tick; raises `GiveUpError`."""
        job = self._job
        if job is None:
            return (), []
        if not job.done():
            return (), self._watch(now_unix_ms)
        self._job = None
        events: list[Event] = []
        if self._is_hung:
            self._is_hung = False
            self._say.source_back(self.source.name)
            self._status_is_new = True
            events.append(self._event("source-back", "", now_unix_ms))
        if self._is_looking:
            self._is_looking = False
            self._looked()
        try:
            observations = job.result()
        except SourceError as error:
            self._failed(error)
            observations = ()
        events += self._verdict(now_unix_ms)
        if self.source.finished and not self._said_finished:
            self._said_finished = True
            self._say.source_finished(self.source.name)
            self._status_is_new = True
        return observations, events

    def _look(self) -> Callable[[], Sequence[reading.Observation]]:
        """Ask the source whether it can be read, and read it at once when it can."""

        def look() -> Sequence[reading.Observation]:
            found = self.source.available()
            observations = self.source.read() if found.state == "yes" else ()
            self.availability = found
            return observations

        self._looked_s = time.monotonic()
        return look

    def _look_again_s(self) -> float:
        if self._tries:
            return MEND_AGAIN_S[min(self._tries, len(MEND_AGAIN_S)) - 1]
        return LOOK_AGAIN_S

    def _looked(self) -> None:
        found = self.availability
        self._say.source_state(self.source.name, found.state, found.detail)
        self._status_is_new = True

    def _watch(self, now_unix_ms: int) -> list[Event]:
        """A read that is under way: say so, once, when it takes too long."""
        waited_ms = int((time.monotonic() - self._started_s) * 1000)
        limit_ms = max(self._limit_ms, LOOK_LIMIT_MS) if self._is_looking else self._limit_ms
        if self._is_hung or waited_ms < limit_ms:
            return []
        self._is_hung = True
        self._say.source_hangs(self.source.name, waited_ms)
        self._status_is_new = True
        return [self._event("source-failed", f"no answer for {waited_ms} ms", now_unix_ms)]

    def _failed(self, error: SourceError) -> None:
        """A read that gave nothing: the source is looked at again before the next read."""
        self.availability = msgspec.structs.replace(
            self.availability, state=error.state, detail=str(error)
        )
        self._say.source_read_failed(self.source.name, str(error), first=not self._is_failing)

    def _verdict(self, now_unix_ms: int) -> list[Event]:
        """What follows from the state that this look or read found."""
        state, detail = self.availability.state, self.availability.detail
        was_failing = self._is_failing
        if state == "yes":
            self._say.source_read(self.source.name, time.monotonic() - self._started_s)
            self._is_failing, self._tries = False, 0
            return [self._event("source-back", "", now_unix_ms)] if was_failing else []
        name = NEEDS_NEW_PROCESS.get(state)
        if name is not None:
            self._is_failing = True
            self._tries += 1
            if self._tries > TRIES_MAX:
                raise GiveUpError(f"{self.source.name}: {state}: {detail}")
            self._status_is_new = True
            return [] if self._tries > 1 else [self._event(name, detail, now_unix_ms)]
        if state != "failed":  # nothing there: no failure
            return []
        self._is_failing = True
        self._status_is_new = self._status_is_new or not was_failing
        return [] if was_failing else [self._event("source-failed", detail, now_unix_ms)]

    def _event(self, name: EventName, detail: str, now_unix_ms: int) -> Event:
        words = f"{self.source.name}: {detail}" if detail else self.source.name
        return record.event(name, checks.text(words), now_unix_ms)
