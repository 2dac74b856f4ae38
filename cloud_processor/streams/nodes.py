"""The by-node step: envelopes in, aggregates and verdicts out.

One Faust agent reads the four input topics. The states of the nodes whose partitions are
ours live in memory; they are loaded from the table when an assignment is complete, and
forgotten when it is revoked. What the judge says is published at once. What it has to
remember is written every `flush_ms`, and only then are the events acknowledged that it
covers, so a killed worker's successor reads again what was not remembered. Reading twice
changes nothing: states know which records they have, windows which samples.

A timer asks the judge about nodes whose time has come, so windows close and silence
shows when no event comes any more. It leaves a partition alone until what had gathered
there before we came is read, or every restart would see a silent fleet.

A record that breaks the contract, or that the judge stumbles over, goes to the
dead-letter topic with its reason and origin, is counted, and is acknowledged. When Kafka
itself fails us, nothing is acknowledged and the process ends: a restart reads it again.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from cloud_processor import telemetry as tell
from cloud_processor.core import judge, model
from cloud_processor.core import policy as policies
from cloud_processor.streams import outlet as outlets
from cloud_processor.streams import shelf
from wire import topics
from wire.codec import decode_envelope
from wire.errors import WireError
from wire.names import node_key, split_node_key
from wire.sample import Envelope

LANE_OF_TOPIC: Mapping[str, topics.Lane] = {
    topic: lane for lane, topic in topics.KAFKA_TOPIC_OF_LANE.items()
}
INPUTS = tuple(LANE_OF_TOPIC)
PENDING_MAX = 20_000
CATCH_UP_MAX_S = 60.0
YIELD_EVERY = 50

PoolOf = Callable[[str, str], str | None]
PartitionOf = Callable[[bytes], int]


class Held(msgspec.Struct):
    """A node whose judge we are."""

    state: model.NodeState
    partition: int
    generation: int = 0
    due_ms: int = 0
    verdicts_at: int | None = None
    arrived_ms: int | None = None


class NodeStep:
    """Moves envelopes through the judge and performs what it says."""

    def __init__(
        self,
        *,
        states: Any,
        windows: Any,
        outlet: outlets.Outlet,
        rules: policies.Policy,
        pool_of: PoolOf,
        telemetry: tell.Telemetry,
        ack: Callable[[Any], object],
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._shelf = shelf.Shelf(states, windows)
        self._outlet = outlet
        self._rules = rules
        self._pool_of = pool_of
        self._telemetry = telemetry
        self._ack = ack
        self._now_ms = now_ms
        self._held: dict[str, Held] = {}
        self._dirty: set[str] = set()
        self._unwritten: dict[tuple[str, int], model.Window | None] = {}
        self._writing: dict[tuple[str, int], model.Window | None] = {}
        self._pending: list[Any] = []
        self._behind: dict[int, int] = {}
        self._behind_until_s = 0.0
        self._owning = False
        self._turn = asyncio.Lock()
        self._flushing = asyncio.Lock()

    async def run(self, stream: Any) -> None:
        """The agent: events one by one, acknowledged by `flush`."""
        async for event in stream.noack().events():
            await self.take(event.message)

    async def take(self, message: Any) -> None:
        """One Kafka record."""
        lane = LANE_OF_TOPIC[message.topic]
        try:
            envelope = _decode(message)
            async with self._turn:
                await self._judge(envelope, lane, message)
        except WireError as error:
            origin = f"{message.topic}/{message.partition}/{message.offset}"
            self._telemetry.record_refused(error.reason, origin, error.detail)
            await self._outlet.dead_letter(
                error=error, origin=origin, key=message.key, value=message.value
            )
        if message.topic == topics.LIVE and message.partition in self._behind:
            self._read_to(message.partition, message.offset + 1)
        message.value = None  # only the offset is needed any more, and there may be many
        self._pending.append(message)
        if len(self._pending) >= PENDING_MAX:
            await self.flush()

    async def _judge(self, envelope: Envelope, lane: topics.Lane, message: Any) -> None:
        now_ms = self._now_ms()
        key = node_key(envelope.cluster, envelope.node)
        held = self._held.get(key)
        if held is None:
            held = self._load(key, envelope, message.partition)
        with _stumbling():
            needed = judge.windows_needed(held.state, envelope, self._rules)
        closed = self._closed(key, held, needed)
        with _stumbling():
            held.state, actions = judge.receive(
                held.state,
                envelope,
                lane=lane,
                arrived_unix_ms=int(message.timestamp * 1000),
                closed=closed,
                policy=self._rules,
                pool=self._pool_of(envelope.cluster, envelope.node),
                now_ms=now_ms,
            )
        self._held[key] = held
        self._dirty.add(key)
        held.due_ms = judge.next_due_ms(held.state, self._rules)
        if lane == "live":
            held.arrived_ms = int(message.timestamp * 1000)
        self._telemetry.envelope_judged(lane)
        await self._perform(key, held, actions, now_ms)

    async def tick(self) -> None:
        """Nodes whose time has come; called some times a second."""
        if not self._owning:
            return
        if self._behind and time.monotonic() > self._behind_until_s:
            self._behind.clear()
        now_ms = self._now_ms()
        due = [k for k, h in self._held.items() if h.due_ms <= now_ms]
        for count, key in enumerate(due):
            held = self._held.get(key)
            if held is None or held.partition in self._behind:
                continue
            async with self._turn:
                await self._tick_node(key, held, now_ms)
            if count % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)

    async def _tick_node(self, key: str, held: Held, now_ms: int) -> None:
        cluster, node = split_node_key(key)
        held.state, actions = judge.tick(
            held.state, policy=self._rules, pool=self._pool_of(cluster, node), now_ms=now_ms
        )
        held.due_ms = judge.next_due_ms(held.state, self._rules)
        self._dirty.add(key)
        await self._perform(key, held, actions, now_ms)

    async def _perform(
        self, key: str, held: Held, actions: Collection[judge.Action], now_ms: int
    ) -> None:
        for action in actions:
            match action:
                case judge.EmitVerdict(verdict=verdict, changed=changed):
                    before, held.verdicts_at = (
                        held.verdicts_at,
                        await self._outlet.verdict(verdict),
                    )
                    if before not in {None, held.verdicts_at}:
                        await self._outlet.withdraw_verdict(verdict.cluster, verdict.node, before)
                    self._telemetry.verdict_published(changed=changed)
                case judge.EmitAggregate(aggregate=aggregate):
                    await self._outlet.aggregate(aggregate, now_ms)
                    self._telemetry.aggregate_published()
                case judge.StoreWindow(start_unix_ms=start, window=window):
                    self._unwritten[key, start] = window
                case judge.DropWindow(start_unix_ms=start):
                    self._unwritten[key, start] = None
                case judge.Report(name=name, detail=detail):
                    self._telemetry.reported(name, key, detail)

    def _load(self, key: str, envelope: Envelope, partition: int) -> Held:
        kept = self._shelf.state(key, partition)
        if kept is None:
            return Held(state=judge.fresh(envelope.cluster, envelope.node), partition=partition)
        return self._restored(kept, partition)

    def _restored(self, kept: shelf.Kept, partition: int) -> Held:
        held = Held(state=kept.state, partition=partition, generation=kept.generation)
        held.due_ms = judge.next_due_ms(held.state, self._rules)
        held.arrived_ms = held.state.arrived_unix_ms
        last = held.state.verdict
        if last is not None:
            held.verdicts_at = self._outlet.partition_of_pool(last.cluster, last.pool)
        return held

    def _closed(self, key: str, held: Held, starts: Collection[int]) -> dict[int, model.Window]:
        found: dict[int, model.Window] = {}
        for start in starts:
            if (key, start) in self._unwritten:
                window = self._unwritten[key, start]
            elif (key, start) in self._writing:
                window = self._writing[key, start]
            else:
                window = self._shelf.window(key, start, held.partition, held.generation)
            if window is not None:
                found[start] = window
        return found

    def own(self, partitions: Collection[int], partition_of: PartitionOf) -> None:
        """An assignment is complete and the tables are recovered: take up what is ours."""
        self.disown()
        for key, kept in self._shelf.all():
            partition = partition_of(key)
            if partition in partitions:
                self._held[key.decode()] = self._restored(kept, partition)
        self._owning = True
        self._telemetry.assigned(len(partitions), len(self._held))

    def catch_up(self, ends: Mapping[int, int]) -> None:
        """Per partition the live offset to reach before silence there means anything."""
        self._behind = {p: end for p, end in ends.items() if end > 0}
        self._behind_until_s = time.monotonic() + CATCH_UP_MAX_S

    def _read_to(self, partition: int, offset: int) -> None:
        if offset >= self._behind[partition]:
            del self._behind[partition]

    def reached(self, partition: int, offset: int) -> None:
        """The consumer stands at `offset` of the live topic (nothing was there to read)."""
        if partition in self._behind:
            self._read_to(partition, offset)

    def arrival_of(self, key: str) -> int | None:
        """When the newest live record of a node of ours arrived."""
        held = self._held.get(key)
        return None if held is None else held.arrived_ms

    @property
    def behind(self) -> frozenset[int]:
        """Partitions whose gathered records are not read yet."""
        return frozenset(self._behind)

    def disown(self) -> None:
        """Partitions are taken from us: forget everything; the successor has the tables."""
        self._owning = False
        self._held = {}
        self._dirty = set()
        self._unwritten = {}
        self._writing = {}
        self._pending = []
        self._behind = {}

    async def flush(self) -> None:
        """Write what changed, then acknowledge what it covers.

        Windows first, and states only when Kafka has the windows: a state must never say
        that a sample is counted in a window that nobody kept. The other way round, a crash
        between the two, is what `shelf.KeptWindow.before` is for. States are immutable, so what
        is written is the moment at which this began, however long it takes.
        """
        async with self._flushing:
            started_s, owned = time.monotonic(), self._held
            pending, self._pending = self._pending, []
            dirty, self._dirty = self._dirty, set()
            states = [(key, owned[key], owned[key].state) for key in dirty]
            self._writing, self._unwritten = self._unwritten, {}
            windows = [
                (key, start, owned[key], window) for (key, start), window in self._writing.items()
            ]
            await self._write(
                self._shelf.put_window(key, start, held.partition, held.generation + 1, window)
                for key, start, held, window in windows
                if window is not None
            )
            await self._write(
                self._shelf.put_state(key, held.partition, held.generation + 1, state)
                for key, held, state in states
            )
            if owned is not self._held:
                return  # revoked meanwhile: not ours to acknowledge
            for _, held, _ in states:
                held.generation += 1
            await self._write(
                self._shelf.drop_window(key, start, held.partition)
                for key, start, held, window in windows
                if window is None
            )
            self._writing = {}
            for message in pending:
                self._ack(message)
            self._telemetry.flushed(len(states), time.monotonic() - started_s)
            self._telemetry.owned(len(self._held))

    async def _write(self, writes: Iterable[None]) -> None:
        """Each step of `writes` is one write; stops early when partitions are taken from us."""
        owned = self._held
        for count, _ in enumerate(writes):
            if count % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)
            if owned is not self._held:
                return
        await self._outlet.settle()


@contextlib.contextmanager
def _stumbling() -> Iterator[None]:
    """A record on which the judge stumbles is a bad record: one must not stop all others."""
    try:
        yield
    except Exception as error:
        raise WireError("malformed", f"the judge failed: {error!r}") from error


def _decode(message: Any) -> Envelope:
    envelope = decode_envelope(message.value)
    key = node_key(envelope.cluster, envelope.node)
    if message.key != key.encode():
        raise WireError("foreign-node", f"key {message.key!r} holds an envelope of {key}")
    return envelope
