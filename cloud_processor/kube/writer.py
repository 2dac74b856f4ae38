"""Wishes become patches: the newest wish of each node, one PATCH a change, never lost.

A wish is only a wish: it is planned against the node as it is known, so an equal node
costs nothing, and a restart that wishes the same again writes nothing. A few threads take
nodes whose time has come:

- newest wins: a wish that was overtaken while it waited is gone;
- 409: read the node, plan again, after a jittered pause; after some rounds back in line;
- 404: the node is gone, and so is the wish;
- 429: everybody waits as long as the server asks;
- 401: the client is built anew, the wish stays;
- no answer or 5xx: everybody waits a growing time, and the wish stays for ever;
- any other refusal: told once, tried again rarely, because it takes a person to mend.

A change of our keys by somebody else is met once in `foreign_gap_s`, not at once and not
in a loop.
"""

import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from cloud_processor import telemetry as tell
from cloud_processor.core import plan
from cloud_processor.kube import client, directory, limiter, nodes, results

THREADS = 4
CONFLICT_ROUNDS = 5
STOP_S = 0.5


class Pace(Struct, frozen=True, kw_only=True):
    """How fast and how patient the writer is; the defaults are those of production."""

    per_second: float = 50.0
    burst: int = 100
    node_gap_s: float = 0.25
    foreign_gap_s: float = 5.0
    conflict_pause_s: float = 0.1
    away_min_s: float = 0.5
    away_max_s: float = 15.0
    refused_pause_s: float = 60.0


class Writer:
    """The only one that changes nodes. `wish` never blocks and may be called from any thread."""

    def __init__(
        self,
        *,
        api: client.NodeWriter,
        known: directory.KubeDirectory,
        domain: str,
        answer: results.Answer,
        telemetry: tell.Telemetry,
        pace: Pace = Pace(),  # noqa: B008 - frozen
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._known = known
        self._domain = domain
        self._answer = answer
        self._telemetry = telemetry
        self._pace = pace
        self._now_s = now_s
        self._limiter = limiter.Limiter(per_second=pace.per_second, burst=pace.burst, now_s=now_s())
        self._wishes: dict[str, plan.Wish] = {}
        self._due: list[tuple[float, int, str]] = []
        self._queued: dict[str, float] = {}
        self._busy: set[str] = set()
        self._written_s: dict[str, float] = {}
        self._failures = 0
        self._told: dict[str, str] = {}
        self._order = itertools.count()
        self._wake = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"kube-writer-{n}", daemon=True)
            for n in range(THREADS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        deadline_s = time.monotonic() + STOP_S
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline_s - time.monotonic()))

    def wish(self, wish: plan.Wish) -> None:
        """From now on this is what the node shall be; an older wish is withdrawn."""
        with self._wake:
            self._wishes[wish.node] = wish
            if wish.node in self._busy:
                return  # taken up again when the try under way has ended
            gap_s = self._pace.node_gap_s
            earliest_s = self._written_s.get(wish.node, -gap_s) + gap_s
            self._enqueue(wish.node, max(self._now_s(), earliest_s))

    def forget(self, node: str) -> None:
        """No wish any more; what stands on the node stays."""
        with self._wake:
            self._drop(node)

    def node_changed(self, name: str) -> None:
        """The cluster says that a node has changed: is it still as wished?"""
        with self._wake:
            wish = self._wishes.get(name)
            if wish is None or name in self._busy or name in self._queued:
                return
            node = self._known.get(name)
            if node is None:
                self._drop(name)
            elif plan.plan(node, wish, self._domain) is not None:
                since_s = self._written_s.get(name, float("-inf"))
                self._enqueue(name, max(self._now_s(), since_s + self._pace.foreign_gap_s))

    @property
    def pending(self) -> int:
        """Nodes whose wish is not fulfilled yet."""
        return len(self._queued) + len(self._busy)

    def _enqueue(self, node: str, at_s: float) -> None:
        if self._queued.get(node, float("inf")) <= at_s:
            return
        self._queued[node] = at_s
        heapq.heappush(self._due, (at_s, next(self._order), node))
        self._wake.notify()

    def _drop(self, node: str) -> None:
        for place in (self._wishes, self._written_s, self._told, self._queued):
            place.pop(node, None)

    def _run(self) -> None:
        while True:
            taken = self._take()
            if taken is None:
                return
            node, wish = taken
            again_s: float | None = self._pace.away_min_s
            try:
                again_s = self._attempt(wish)
            except Exception as failure:  # noqa: BLE001 - a writer thread must not die
                self._telemetry.patch_failed(node, f"{type(failure).__name__}: {failure}")
                again_s = self._pace.refused_pause_s
            finally:
                self._finish(node, wish, again_s)

    def _take(self) -> tuple[str, plan.Wish] | None:
        with self._wake:
            while not self._stopping:
                now_s = self._now_s()
                wait_s = 1.0
                if self._due:
                    at_s, _, node = self._due[0]
                    if self._queued.get(node) != at_s:
                        heapq.heappop(self._due)
                        continue
                    wait_s = at_s - now_s
                    if wait_s <= 0:
                        wait_s = self._limiter.take(now_s)
                    if wait_s <= 0:
                        heapq.heappop(self._due)
                        del self._queued[node]
                        self._busy.add(node)
                        return node, self._wishes[node]
                self._wake.wait(min(1.0, max(0.001, wait_s)))
        return None

    def _finish(self, node: str, wish: plan.Wish, again_s: float | None) -> None:
        with self._wake:
            self._busy.discard(node)
            newest = self._wishes.get(node)
            if newest is None:
                return
            if newest is not wish:
                gap_s = self._written_s.get(node, 0.0) + self._pace.node_gap_s - self._now_s()
                again_s = max(0.0, gap_s)
            if again_s is not None:
                self._queued.pop(node, None)
                self._enqueue(node, self._now_s() + again_s)

    def _attempt(self, wish: plan.Wish) -> float | None:
        """One try for one node; the seconds until the next, or None when it is done."""
        try:
            return self._write(wish)
        except client.Unreachable as failure:
            return self._away(wish, f"{failure}")
        except client.Refused as refusal:
            return self._refused(wish, refusal)

    def _write(self, wish: plan.Wish) -> float | None:
        node = self._known.get(wish.node) or self._read(wish.node)
        for _ in range(CONFLICT_ROUNDS):
            patch = plan.plan(node, wish, self._domain)
            if patch is None:
                self._reached()
                return None
            try:
                patched = self._api.patch(wish.node, patch)
            except client.Refused as refusal:
                if refusal.status != 409:
                    raise
                self._telemetry.patch_conflicted(wish.node)
                pause_s = self._pace.conflict_pause_s
                time.sleep(pause_s * random.uniform(0.2, 1.0))  # noqa: S311 - jitter
                node = self._read(wish.node)
                continue
            self._applied(wish, patch, patched)
            return None
        return self._pace.away_min_s * random.uniform(1.0, 2.0)  # noqa: S311 - jitter

    def _read(self, name: str) -> plan.ObservedNode:
        node = nodes.observed(self._api.get(name))
        self._known.absorb(node)
        return node

    def _applied(self, wish: plan.Wish, patch: dict[str, Any], patched: dict[str, Any]) -> None:
        self._known.absorb(nodes.observed(patched))
        with self._wake:
            self._written_s[wish.node] = self._now_s()
            self._told.pop(wish.node, None)
        self._reached()
        self._tell(wish, "applied", wish.reason, patch)

    def _reached(self) -> None:
        if self._failures:
            self._failures = 0
            self._telemetry.api_server_back()

    def _away(self, wish: plan.Wish, detail: str) -> float:
        self._failures += 1
        pause_s = min(self._pace.away_max_s, self._pace.away_min_s * 2 ** min(10, self._failures))
        pause_s *= random.uniform(0.5, 1.0)  # noqa: S311 - jitter
        self._limiter.hold(self._now_s(), pause_s)
        self._telemetry.api_server_away(detail)
        self._tell_once(wish, f"the API server is away, it will be tried again: {detail}")
        return 0.0

    def _refused(self, wish: plan.Wish, refusal: client.Refused) -> float | None:
        if refusal.status == 404:
            with self._wake:
                self._drop(wish.node)
            self._telemetry.node_gone(wish.node)
            self._tell(wish, "unknown-node", "the node is gone", None)
            return None
        if refusal.status == 429 or (refusal.status == 503 and refusal.retry_after_s):
            pause_s = max(refusal.retry_after_s or 0.0, self._pace.away_min_s)
            self._limiter.hold(self._now_s(), pause_s)
            self._telemetry.api_server_throttles(pause_s)
            return 0.0
        if refusal.status == 401:
            self._api.rebuild()
            return self._away(wish, f"{refusal}")
        if refusal.status >= 500:
            return self._away(wish, f"{refusal}")
        self._telemetry.patch_failed(wish.node, f"{refusal}")
        self._tell_once(wish, f"the API server refuses: {refusal}")
        return self._pace.refused_pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - jitter

    def _tell_once(self, wish: plan.Wish, reason: str) -> None:
        with self._wake:
            if self._told.get(wish.node) == wish.decision_id:
                return
            self._told[wish.node] = wish.decision_id
        self._tell(wish, "failed", reason[:1024], None)

    def _tell(
        self, wish: plan.Wish, outcome: Any, reason: str, patch: dict[str, Any] | None
    ) -> None:
        self._telemetry.patched(outcome)
        self._answer(
            results.Result(
                wish=wish,
                outcome=outcome,
                reason=reason,
                patch=patch,
                answered_unix_ms=time.time_ns() // 1_000_000 if patch is not None else None,
            )
        )
