"""The writer that cannot write: dry-run mode, and life without a cluster.

It has no client, so no flag can be forgotten anywhere: there is no write method within
its reach. It plans as the real one does, tells what it would have sent, and remembers
the node as it would then be, so that each change is told once.
"""

import time

from cloud_processor.core import plan
from cloud_processor.kube import directory, nodes, results


class DryWriter:
    """Answers every wish that would change something with the patch it would have sent."""

    def __init__(self, *, known: directory.Directory, domain: str, answer: results.Answer) -> None:
        self._known = known
        self._domain = domain
        self._answer = answer
        self._pretended: dict[str, plan.ObservedNode] = {}

    def wish(self, wish: plan.Wish) -> None:
        real = self._known.get(wish.node)
        if real is None:
            self._pretended.pop(wish.node, None)
            self._answer(results.Result(wish=wish, outcome="unknown-node", reason="no such node"))
            return
        node = self._pretended.get(wish.node) or real
        patch = plan.plan(node, wish, self._domain)
        if patch is None:
            return
        self._pretended[wish.node] = nodes.merged(node, patch)
        self._answer(
            results.Result(
                wish=wish,
                outcome="dry-run",
                reason=wish.reason,
                patch=patch,
                answered_unix_ms=time.time_ns() // 1_000_000,
            )
        )

    def forget(self, node: str) -> None:
        self._pretended.pop(node, None)

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""
