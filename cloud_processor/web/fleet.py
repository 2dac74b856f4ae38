"""The fleet in memory: the last word on every node, whoever said it.

Filled from the topics by `streams/log.py` and read by the pages. It holds what a person
asks for and no more: each node's verdict, its last decisions and its last aggregate.
A verdict is repeated only every heartbeat, so the arrival it tells may be that old; for
nodes that this worker judges itself, `arrival_of` knows better.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from wire.aggregate import Aggregate
from wire.codec import decode
from wire.errors import WireError
from wire.names import node_key
from wire.verdict import Decision, Verdict

DECISIONS_KEPT = 20


class Seen(msgspec.Struct):
    """What is known of one node."""

    cluster: str
    node: str
    verdict: Verdict | None = None
    partition: int = -1
    aggregate: Aggregate | None = None
    decisions: deque[Decision] = msgspec.field(default_factory=lambda: deque(maxlen=DECISIONS_KEPT))


class Fleet:
    """All nodes that have a verdict; answers are plain data for the pages."""

    def __init__(self, arrival_of: Callable[[str], int | None] = lambda _key: None) -> None:
        self._arrival_of = arrival_of
        self._nodes: dict[str, Seen] = {}
        self.refused_count = 0

    def __len__(self) -> int:
        return sum(1 for seen in self._nodes.values() if seen.verdict is not None)

    def take_verdict(self, key: bytes | None, value: bytes | None, partition: int) -> None:
        """A record of the verdicts topic; a tombstone takes back what stood in its partition."""
        if value is None:
            seen = self._nodes.get((key or b"").decode(errors="replace"))
            if seen is not None and seen.partition == partition:
                seen.verdict = None
            return
        verdict = self._decoded(value, Verdict)
        if verdict is None:
            return
        seen = self._seen(verdict.cluster, verdict.node)
        if seen.verdict is None or (verdict.ts_unix_ms, verdict.revision) >= (
            seen.verdict.ts_unix_ms,
            seen.verdict.revision,
        ):
            seen.verdict, seen.partition = verdict, partition

    def take_decision(self, value: bytes | None) -> None:
        """A record of the decisions topic."""
        decision = self._decoded(value, Decision)
        if decision is not None:
            self._seen(decision.cluster, decision.node).decisions.append(decision)

    def take_aggregate(self, value: bytes | None) -> None:
        """A record of the aggregates topic; the newest window stays."""
        aggregate = self._decoded(value, Aggregate)
        if aggregate is None:
            return
        seen = self._seen(aggregate.cluster, aggregate.node)
        last = seen.aggregate
        if last is None or (aggregate.window_start_unix_ms, aggregate.revision) >= (
            last.window_start_unix_ms,
            last.revision,
        ):
            seen.aggregate = aggregate

    def rows(self, now_ms: int) -> list[dict[str, Any]]:
        """One row for each node, by cluster and name."""
        return [
            self._row(seen, seen.verdict, now_ms)
            for _, seen in sorted(self._nodes.items())
            if seen.verdict is not None
        ]

    def find(self, node: str, cluster: str | None) -> list[Seen]:
        """The nodes of this name: none, one, or one in each of several clusters."""
        return [
            seen
            for seen in self._nodes.values()
            if seen.node == node and seen.verdict is not None and cluster in {None, seen.cluster}
        ]

    def detail(self, seen: Seen, now_ms: int) -> dict[str, Any]:
        """All that is known of one node."""
        assert seen.verdict is not None
        return {
            **self._row(seen, seen.verdict, now_ms),
            "verdict": msgspec.to_builtins(seen.verdict),
            "aggregate": msgspec.to_builtins(seen.aggregate),
            "decisions": [msgspec.to_builtins(d) for d in reversed(seen.decisions)],
        }

    def _row(self, seen: Seen, verdict: Verdict, now_ms: int) -> dict[str, Any]:
        used = [g.utilization_percent for g in verdict.gpus if g.utilization_percent is not None]
        heard = (verdict.arrived_unix_ms, self._arrival_of(node_key(seen.cluster, seen.node)))
        arrived_ms = max((ms for ms in heard if ms is not None), default=None)
        last = seen.decisions[-1] if seen.decisions else None
        return {
            "cluster": seen.cluster,
            "node": seen.node,
            "pool": verdict.pool,
            "load": verdict.load,
            "health": verdict.health,
            "thermal": verdict.thermal,
            "power": verdict.power,
            "telemetry": verdict.telemetry,
            "driver": None if verdict.driver is None else verdict.driver.compatibility,
            "utilization_percent": round(sum(used) / len(used), 1) if used else None,
            "gpus": len(verdict.gpus),
            "reasons": list(verdict.reasons),
            "revision": verdict.revision,
            "freshness_ms": None if arrived_ms is None else max(0, now_ms - arrived_ms),
            "intake": msgspec.to_builtins(verdict.intake),
            "taints": [msgspec.to_builtins(t) for t in last.taints] if last else [],
            "withheld": [msgspec.to_builtins(t) for t in last.withheld] if last else [],
            "last_outcome": last.outcome if last else None,
            "last_decision_unix_ms": last.ts_unix_ms if last else None,
        }

    def _seen(self, cluster: str, node: str) -> Seen:
        key = node_key(cluster, node)
        seen = self._nodes.get(key)
        if seen is None:
            seen = self._nodes[key] = Seen(cluster=cluster, node=node)
        return seen

    def _decoded(self, value: bytes | None, shape: Any) -> Any:
        try:
            return decode(value, shape)
        except WireError:
            self.refused_count += 1
            return None
