"""What nodes there are, and in which pool: the cluster's word, kept up to date by a watch.

One thread lists all nodes, then watches from the list's version. A watch that ends in
peace is taken up where it ended. "410 Gone", as a status or as an ERROR event inside the
stream, means that the version is too old: list again, and what the list no longer has
is gone. Any other failure: the same after a growing, jittered pause. What was known
stays known while the API server is away.

A node's pool comes from its labels by the policy's selectors.
"""

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cloud_processor import telemetry as tell
from cloud_processor.core import plan, policy
from cloud_processor.kube import client, nodes

WATCH_TIMEOUT_S = 240
STOP_S = 0.5
PAUSE_MIN_S = 0.5
PAUSE_MAX_S = 30.0
GONE = 410

Changed = Callable[[str], None]


class Directory(Protocol):
    """Answers what is known of a node; `None` is a node that the cluster does not have."""

    def get(self, node: str) -> plan.ObservedNode | None: ...
    def pool_of(self, cluster: str, node: str) -> str | None: ...
    def absorb(self, node: plan.ObservedNode) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


class Everyone:
    """Without a cluster: every node that reports is there, bare, in pool `default`."""

    POOL = "default"

    def get(self, node: str) -> plan.ObservedNode | None:
        return plan.ObservedNode(
            name=node,
            resource_version="",
            labels={},
            annotations={},
            taints=(),
            unschedulable=False,
        )

    def pool_of(self, cluster: str, node: str) -> str | None:  # noqa: ARG002 - one answer for all
        return self.POOL

    def absorb(self, node: plan.ObservedNode) -> None:
        """Nothing is kept: there is no cluster to know better."""

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""


class KubeDirectory:
    """The nodes of one API server, by list and watch."""

    def __init__(
        self,
        *,
        reader: client.NodeReader,
        rules: policy.Policy,
        cluster: str,
        telemetry: tell.Telemetry,
        changed: Changed = lambda _node: None,
    ) -> None:
        self._reader = reader
        self._rules = rules
        self._cluster = cluster
        self._telemetry = telemetry
        self._changed = changed
        self._nodes: dict[str, plan.ObservedNode] = {}
        self._version = ""
        self._watch: client.Watch | None = None
        self._stopping = threading.Event()
        self.listed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kube-directory", daemon=True)

    def on_change(self, changed: Changed) -> None:
        """Whom to tell that a node has changed; called in the directory's thread."""
        self._changed = changed

    def get(self, node: str) -> plan.ObservedNode | None:
        return self._nodes.get(node)

    def pool_of(self, cluster: str, node: str) -> str | None:
        if self._cluster and cluster != self._cluster:
            return None
        known = self._nodes.get(node)
        return None if known is None else policy.pool_of(self._rules, known.labels)

    def absorb(self, node: plan.ObservedNode) -> None:
        """Take in a node that was read or patched elsewhere, unless we know a newer one."""
        known = self._nodes.get(node.name)
        if known is None or not _is_older(node.resource_version, known.resource_version):
            self._nodes[node.name] = node

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._watch is not None:
            self._watch.close()
        self._thread.join(timeout=STOP_S)

    def _run(self) -> None:
        pause_s = PAUSE_MIN_S
        while not self._stopping.is_set():
            try:
                if not self._version:
                    self._list()
                self._follow()
                pause_s = PAUSE_MIN_S
                continue
            except client.Refused as refusal:
                self._telemetry.directory_failed(f"{refusal}")
                if refusal.status == GONE:
                    self._version = ""
                elif refusal.status == 401:
                    self._reader.rebuild()
            except client.Unreachable as failure:
                if self._stopping.is_set():
                    return
                self._telemetry.directory_failed(f"{failure}")
            except Exception as failure:  # noqa: BLE001 - this thread must outlive a bad object
                self._version = ""
                self._telemetry.directory_failed(f"{type(failure).__name__}: {failure}")
            self._stopping.wait(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            pause_s = min(PAUSE_MAX_S, pause_s * 2)

    def _list(self) -> None:
        items, version = self._reader.list()
        fresh = {node.name: node for node in map(nodes.observed, items)}
        gone = self._nodes.keys() - fresh.keys()
        self._nodes = fresh
        self._version = version
        self._telemetry.directory_listed(len(fresh), gone=len(gone))
        self.listed.set()
        for name in (*fresh, *gone):
            self._changed(name)

    def _follow(self) -> None:
        started_s = time.monotonic()
        self._watch = self._reader.watch(self._version, timeout_s=WATCH_TIMEOUT_S)
        if self._stopping.is_set():
            self._watch.close()  # `stop` may have come before there was a watch to close
        for event in self._watch:
            self._apply(event["type"], event["object"])
        if time.monotonic() - started_s < 1.0:
            self._stopping.wait(PAUSE_MIN_S)

    def _apply(self, kind: str, item: Mapping[str, Any]) -> None:
        if kind == "ERROR":
            raise client.Refused(int(item.get("code") or 500), str(item.get("message")), None)
        version = item["metadata"]["resourceVersion"]
        if kind == "DELETED":
            self._nodes.pop(item["metadata"]["name"], None)
        elif kind != "BOOKMARK":
            self.absorb(nodes.observed(item))
        self._version = version
        if kind != "BOOKMARK":
            self._changed(item["metadata"]["name"])


def _is_older(version: str, than: str) -> bool:
    """Versions are opaque by contract; where both are numbers, etcd's order is theirs."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
