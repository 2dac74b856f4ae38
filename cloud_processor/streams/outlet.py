"""What the shells say to Kafka, and the knowledge of what has not arrived yet.

Sends go straight to Faust's producer, so that a verdict leaves at once. Each returns a
future; `settle` waits for all of them and raises the first failure. The shells settle
before they acknowledge, so that nothing is committed whose outcome is not in Kafka.
"""

import asyncio
import hashlib
from typing import Any, Protocol

import faust

from wire import headers, topics
from wire.aggregate import Aggregate
from wire.codec import encode
from wire.errors import WireError
from wire.names import node_key
from wire.verdict import Decision, Verdict


class Producer(Protocol):
    """As much of Faust's producer as is used here."""

    async def send(  # noqa: PLR0917 - Faust's own order
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: Any,
    ) -> Any: ...

    async def flush(self) -> None: ...


class Outlet:
    """Publishes aggregates, verdicts, decisions and dead letters."""

    def __init__(self, app: faust.App, partitions: int) -> None:
        self._app = app
        self._partitions = partitions
        self._pending: set[asyncio.Future[Any]] = set()
        self._failure: BaseException | None = None

    async def aggregate(self, aggregate: Aggregate, now_ms: int) -> None:
        tail = f"{aggregate.window_start_unix_ms}/{aggregate.revision}"
        await self._tell(topics.AGGREGATES, aggregate, "aggregate", tail, now_ms)

    async def verdict(self, verdict: Verdict) -> int:
        """Returns the partition, which the pool decides."""
        partition = self.partition_of_pool(verdict.cluster, verdict.pool)
        tail = f"verdict/{verdict.revision}"
        await self._tell(topics.VERDICTS, verdict, "verdict", tail, verdict.ts_unix_ms, partition)
        return partition

    async def withdraw_verdict(self, cluster: str, node: str, partition: int) -> None:
        """A tombstone where the node's verdicts went before its pool changed."""
        await self._send(topics.VERDICTS, node_key(cluster, node).encode(), None, partition, None)

    async def decision(self, decision: Decision) -> None:
        tail = f"{decision.id}/{decision.outcome}"
        await self._tell(topics.DECISIONS, decision, "decision", tail, decision.ts_unix_ms)

    async def dead_letter(
        self, *, error: WireError, origin: str, key: bytes | None, value: bytes | None
    ) -> None:
        body = value or b""
        head = headers.dead_letter(
            error=error,
            origin=origin,
            size_bytes=len(body),
            sha256=hashlib.sha256(body).hexdigest(),
        )
        await self._send(topics.DEAD_LETTERS, key, body[: headers.HEAD_BYTES_MAX], None, head)

    def partition_of_pool(self, cluster: str, pool: str | None) -> int:
        return topics.partition_of(f"{cluster}/{pool or ''}", self._partitions)

    async def settle(self) -> None:
        """Wait until Kafka has all that was sent; raise what could not be sent."""
        await self._app.producer.flush()
        if self._pending:
            await asyncio.wait(set(self._pending))
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    async def _tell(  # noqa: PLR0917 - a message and its headers
        self,
        topic: str,
        said: Aggregate | Verdict | Decision,
        kind: str,
        tail: str,
        time_unix_ms: int,
        partition: int | None = None,
    ) -> None:
        """What we say of a node, keyed by it; `tail` tells it apart from what else we said."""
        key = node_key(said.cluster, said.node)
        head = headers.cloud_event(
            event_id=f"{key}/{tail}",
            cluster=said.cluster,
            node=said.node,
            kind=kind,
            time_unix_ms=time_unix_ms,
        )
        await self._send(topic, key.encode(), encode(said), partition, head)

    async def _send(
        self, topic: str, key: bytes | None, value: bytes | None, partition: int | None, head: Any
    ) -> None:
        producer: Producer = self._app.producer
        sent = asyncio.ensure_future(await producer.send(topic, key, value, partition, None, head))
        self._pending.add(sent)
        sent.add_done_callback(self._done)

    def _done(self, sent: "asyncio.Future[Any]") -> None:
        self._pending.discard(sent)
        if sent.cancelled():
            self._failure = self._failure or asyncio.CancelledError()
        elif sent.exception() is not None:
            self._failure = self._failure or sent.exception()
