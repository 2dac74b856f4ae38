"""What surrounds the shells' steps, in memory: an outlet, tables, messages, a clock."""

from typing import Any

from faust.types import TP
from faust.types.tuples import ConsumerMessage

from wire import topics
from wire.errors import WireError

PARTITIONS = 4


class Outlet:
    """Takes down what was sent; can be told to fail when settled."""

    def __init__(self) -> None:
        self.aggregates: list[Any] = []
        self.verdicts: list[Any] = []
        self.withdrawn: list[tuple[str, str, int]] = []
        self.decisions: list[Any] = []
        self.dead: list[tuple[str, str, bytes | None]] = []
        self.settled = 0
        self.failure: Exception | None = None

    async def aggregate(self, aggregate: Any, now_ms: int) -> None:
        self.aggregates.append(aggregate)

    async def verdict(self, verdict: Any) -> int:
        self.verdicts.append(verdict)
        return self.partition_of_pool(verdict.cluster, verdict.pool)

    async def withdraw_verdict(self, cluster: str, node: str, partition: int) -> None:
        self.withdrawn.append((cluster, node, partition))

    async def decision(self, decision: Any) -> None:
        self.decisions.append(decision)

    async def dead_letter(
        self, *, error: WireError, origin: str, key: bytes | None, value: bytes | None
    ) -> None:
        self.dead.append((error.reason, origin, value))

    def partition_of_pool(self, cluster: str, pool: str | None) -> int:
        return topics.partition_of(f"{cluster}/{pool or ''}", PARTITIONS)

    async def settle(self) -> None:
        self.settled += 1
        if self.failure is not None:
            raise self.failure


class Table(dict):
    """A table; its `log` is the changelog. Writes after `cut` never reach it."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[bytes, bytes | None]] = []

    def __setitem__(self, key: bytes, value: bytes) -> None:
        super().__setitem__(key, value)
        self.log.append((key, value))

    def __delitem__(self, key: bytes) -> None:
        super().__delitem__(key)
        self.log.append((key, None))


class Clock:
    """Time that moves only when told."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def message(
    topic: str,
    key: bytes | None,
    value: bytes | None,
    *,
    offset: int = 0,
    partition: int = 0,
    at_ms: int = 0,
) -> ConsumerMessage:
    return ConsumerMessage(
        topic,
        partition,
        offset,
        at_ms / 1000,
        0,
        None,
        key,
        value,
        None,
        tp=TP(topic, partition),
        generation_id=1,
    )
