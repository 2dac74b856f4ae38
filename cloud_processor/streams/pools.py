"""The by-pool step: verdicts in, wishes to the Kubernetes writer, decisions out.

One Faust agent reads the verdicts. All verdicts of a pool stand in one partition, so one
worker has the whole pool before it and its budget has one owner. A wish that carries or
holds back a taint spends budget, so the pool's state is in Kafka before the wish goes to
the writer: after a kill the successor knows what was spent. Other changes are written
every `flush_ms`, and verdicts are acknowledged when the state that knows them is written.

A wish is repeated after a restart when the judge repeats its verdict; the writer plans it
against the node as it is and finds nothing to do. What a writer answers becomes a
decision, with everything that is needed to explain it.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import msgspec

from cloud_processor import telemetry as tell
from cloud_processor.core import model, plan, steer
from cloud_processor.core import policy as policies
from cloud_processor.streams import outlet as outlets
from cloud_processor.streams import tables
from wire.codec import decode
from wire.errors import WireError
from wire.names import node_key, split_node_key
from wire.sample import VERSION
from wire.verdict import Decision, Outcome, Verdict

PENDING_MAX = 20_000


class Wisher(Protocol):
    """A Kubernetes writer: takes the newest wish of a node and never blocks."""

    def wish(self, wish: plan.Wish) -> None: ...
    def forget(self, node: str) -> None: ...


class Answer(Protocol):
    """What a writer made of a wish; the time is that of the API server's answer, if any."""

    wish: plan.Wish
    outcome: Outcome
    reason: str
    patch: Mapping[str, Any] | None
    answered_unix_ms: int | None


class Pool(msgspec.Struct):
    """A pool whose steersman we are."""

    state: model.PoolState
    partition: int


class PoolStep:
    """Moves verdicts through the steersman and performs what it says."""

    def __init__(
        self,
        *,
        states: Any,
        outlet: outlets.Outlet,
        writer: Wisher,
        rules: policies.Policy,
        telemetry: tell.Telemetry,
        ack: Callable[[Any], object],
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._states = states
        self._outlet = outlet
        self._writer = writer
        self._rules = rules
        self._telemetry = telemetry
        self._ack = ack
        self._now_ms = now_ms
        self._pools: dict[str, Pool] = {}
        self._pool_of_node: dict[str, str] = {}
        self._dirty: set[str] = set()
        self._pending: list[Any] = []
        self._owning = False
        self._turn = asyncio.Lock()
        self._flushing = asyncio.Lock()

    async def run(self, stream: Any) -> None:
        """The agent: verdicts one by one, acknowledged by `flush`."""
        async for event in stream.noack().events():
            await self.take(event.message)

    async def take(self, message: Any) -> None:
        """One record of the verdicts topic."""
        try:
            if message.value is None:
                self._forget(message)
            else:
                verdict = decode(message.value, Verdict)
                async with self._turn:
                    await self._steer(verdict, message.partition)
        except WireError as error:
            origin = f"{message.topic}/{message.partition}/{message.offset}"
            self._telemetry.record_refused(error.reason, origin, error.detail)
            await self._outlet.dead_letter(
                error=error, origin=origin, key=message.key, value=message.value
            )
        message.value = None
        self._pending.append(message)
        if len(self._pending) >= PENDING_MAX:
            await self.flush()

    async def _steer(self, verdict: Verdict, partition: int) -> None:
        key = node_key(verdict.cluster, verdict.node)
        before = self._pool_of_node.get(key)
        if before is not None and before != verdict.pool:
            self._leave(key, before)
        if verdict.pool is None:
            return
        name = f"{verdict.cluster}/{verdict.pool}"
        self._pool_of_node[key] = verdict.pool
        pool = self._pools.get(name)
        if pool is None:
            pool = self._pools[name] = Pool(
                state=steer.fresh_pool(verdict.cluster, verdict.pool), partition=partition
            )
        try:
            pool.state, wishes = steer.on_verdict(
                pool.state, verdict, policy=self._rules, now_ms=self._now_ms()
            )
        except Exception as error:
            raise WireError("malformed", f"the steersman failed: {error!r}") from error
        self._dirty.add(name)
        await self._wish(name, pool, wishes)

    def _forget(self, message: Any) -> None:
        key = (message.key or b"").decode(errors="replace")
        pool = self._pool_of_node.get(key)
        if pool is None:
            return
        cluster, _ = split_node_key(key)
        held = self._pools.get(f"{cluster}/{pool}")
        if held is not None and held.partition == message.partition:
            self._leave(key, pool)

    def _leave(self, key: str, pool_name: str) -> None:
        cluster, node = split_node_key(key)
        name = f"{cluster}/{pool_name}"
        pool = self._pools.get(name)
        if pool is not None:
            pool.state = steer.on_forget(pool.state, node, now_ms=self._now_ms())
            self._dirty.add(name)
        self._pool_of_node.pop(key, None)
        self._writer.forget(node)

    async def tick(self) -> None:
        """Every pool in turn; called some times a second."""
        if not self._owning:
            return
        for name, pool in list(self._pools.items()):
            async with self._turn:
                before = pool.state
                pool.state, wishes = steer.on_tick(
                    before, policy=self._rules, now_ms=self._now_ms()
                )
                if pool.state is not before:
                    self._dirty.add(name)
                await self._wish(name, pool, wishes)

    async def _wish(self, name: str, pool: Pool, wishes: Collection[plan.Wish]) -> None:
        if any(wish.taints or wish.withheld for wish in wishes):
            self._write(name, pool)
            await self._outlet.settle()
        if self._pools.get(name) is not pool:
            return  # revoked while writing: the new owner wishes
        for wish in wishes:
            self._telemetry.wished(wish.node, wish.reason)
            self._writer.wish(wish)

    def _write(self, name: str, pool: Pool) -> None:
        with tables.at_partition(pool.partition):
            self._states[name.encode()] = tables.pack(pool.state)
        self._dirty.discard(name)

    async def answered(self, result: Answer) -> None:
        """What a writer made of a wish becomes a decision."""
        wish = result.wish
        self._telemetry.decided(wish.node, result.outcome, result.reason)
        await self._outlet.decision(
            Decision(
                v=VERSION,
                id=wish.decision_id,
                ts_unix_ms=self._now_ms(),
                cluster=wish.verdict.cluster,
                node=wish.node,
                pool=wish.pool,
                outcome=result.outcome,
                reason=result.reason,
                labels=dict(wish.labels),
                taints=tuple(wish.taints),
                withheld=tuple(wish.withheld),
                budget=wish.budget,
                verdict=wish.verdict,
                patch=None if result.patch is None else dict(result.patch),
                answered_unix_ms=result.answered_unix_ms,
            )
        )

    def own(self, partitions: Collection[int]) -> None:
        """An assignment is complete and the table is recovered: take up our pools."""
        self.disown()
        for key, data in self._states.items():
            state = steer.restored(tables.unpack(data, model.PoolState))
            partition = self._outlet.partition_of_pool(state.cluster, state.pool)
            if partition not in partitions:
                continue
            self._pools[key.decode()] = Pool(state=state, partition=partition)
            for node in state.nodes:
                self._pool_of_node[node_key(state.cluster, node)] = state.pool
        self._owning = True

    def disown(self) -> None:
        """Partitions are taken from us: forget everything; the successor has the table."""
        self._owning = False
        self._pools = {}
        self._pool_of_node = {}
        self._dirty = set()
        self._pending = []

    async def flush(self) -> None:
        """Write the pools that changed, then acknowledge the verdicts they know."""
        async with self._flushing:
            owned = self._pools
            pending, self._pending = self._pending, []
            for name in list(self._dirty):
                self._write(name, owned[name])
            await self._outlet.settle()
            if owned is self._pools:
                for message in pending:
                    self._ack(message)
