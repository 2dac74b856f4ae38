"""What happens in the processor, each happening told once: its log line and its metric.

One small method for each happening, so that names cannot drift apart and a reader finds
here all that can be seen from outside. The registry is passed in: two processors in one
process (tests) do not meet.
"""

import logging

import prometheus_client as prom

from wire.errors import Reason
from wire.verdict import Outcome

log = logging.getLogger("cloud_processor")

# Reports that come in thousands when records are read again: counted, not told.
COMMON_REPORTS = frozenset({"duplicate", "event-noted"})


class Telemetry:
    """The processor's happenings."""

    def __init__(self, registry: prom.CollectorRegistry) -> None:
        self.registry = registry
        self._envelopes = prom.Counter(
            "windvane_processor_envelopes", "Envelopes judged.", ["lane"], registry=registry
        )
        self._refused = prom.Counter(
            "windvane_processor_dead_letters", "Records refused.", ["reason"], registry=registry
        )
        self._aggregates = prom.Counter(
            "windvane_processor_aggregates", "Aggregates published.", registry=registry
        )
        self._verdicts = prom.Counter(
            "windvane_processor_verdicts", "Verdicts published.", ["changed"], registry=registry
        )
        self._reports = prom.Counter(
            "windvane_processor_reports", "Findings of the judge.", ["name"], registry=registry
        )
        self._wishes = prom.Counter(
            "windvane_processor_wishes", "Wishes for nodes.", registry=registry
        )
        self._decisions = prom.Counter(
            "windvane_processor_decisions", "Decisions by outcome.", ["outcome"], registry=registry
        )
        self._flush_s = prom.Histogram(
            "windvane_processor_flush_seconds", "Time to write state.", registry=registry
        )
        self._flushed = prom.Counter(
            "windvane_processor_flushed_nodes", "Node states written.", registry=registry
        )
        self._rebalances = prom.Counter(
            "windvane_processor_rebalances", "Assignments received.", registry=registry
        )
        self._owned = prom.Gauge(
            "windvane_processor_nodes_owned", "Nodes judged by this worker.", registry=registry
        )
        self._lag = prom.Gauge(
            "windvane_processor_commit_lag_records",
            "Records between the committed offset and the end.",
            ["topic"],
            registry=registry,
        )
        self._nodes = prom.Gauge(
            "windvane_processor_kube_nodes", "Nodes in the cluster.", registry=registry
        )
        self._directory_failures = prom.Counter(
            "windvane_processor_kube_watch_failures", "Lists and watches failed.", registry=registry
        )
        self._conflicts = prom.Counter(
            "windvane_processor_kube_conflicts", "Patches answered 409.", registry=registry
        )
        self._patches = prom.Counter(
            "windvane_processor_kube_patches", "Wishes by outcome.", ["outcome"], registry=registry
        )
        self._away = prom.Gauge(
            "windvane_processor_kube_away", "1 while the API server is away.", registry=registry
        )

    def envelope_judged(self, lane: str) -> None:
        self._envelopes.labels(lane).inc()

    def record_refused(self, reason: Reason, origin: str, detail: str) -> None:
        log.warning("dead letter: %s at %s: %s", reason, origin, detail)
        self._refused.labels(reason).inc()

    def aggregate_published(self) -> None:
        self._aggregates.inc()

    def verdict_published(self, *, changed: bool) -> None:
        self._verdicts.labels("yes" if changed else "no").inc()

    def reported(self, name: str, node: str, detail: str) -> None:
        level = logging.DEBUG if name in COMMON_REPORTS else logging.INFO
        log.log(level, "%s: %s: %s", node, name, detail)
        self._reports.labels(name).inc()

    def wished(self, node: str, reason: str) -> None:
        log.debug("%s: wish: %s", node, reason)
        self._wishes.inc()

    def decided(self, node: str, outcome: Outcome, reason: str) -> None:
        log.info("%s: decision %s: %s", node, outcome, reason)
        self._decisions.labels(outcome).inc()

    def flushed(self, nodes: int, seconds: float) -> None:
        self._flushed.inc(nodes)
        self._flush_s.observe(seconds)

    def assigned(self, partitions: int, nodes: int) -> None:
        log.info("assigned: %d partitions, %d nodes known", partitions, nodes)
        self._rebalances.inc()
        self._owned.set(nodes)

    def owned(self, nodes: int) -> None:
        self._owned.set(nodes)

    def lag(self, topic: str, records: int) -> None:
        self._lag.labels(topic).set(records)

    def view_failed(self, detail: str) -> None:
        log.warning("fleet view: %s; it will be tried again", detail)

    def kafka_away(self, detail: str) -> None:
        log.warning("Kafka does not answer, trying again: %s", detail)

    def crashed(self, detail: str) -> None:
        log.critical("the processor cannot go on: %s", detail)

    def directory_listed(self, nodes: int, *, gone: int) -> None:
        log.info("nodes listed: %d, of those known before %d are gone", nodes, gone)
        self._nodes.set(nodes)

    def directory_failed(self, detail: str) -> None:
        log.warning("nodes cannot be watched, trying again: %s", detail)
        self._directory_failures.inc()

    def node_gone(self, node: str) -> None:
        log.info("%s: the node is gone from the cluster", node)

    def patch_conflicted(self, node: str) -> None:
        log.debug("%s: changed by somebody else, planned again", node)
        self._conflicts.inc()

    def patch_failed(self, node: str, detail: str) -> None:
        log.error("%s: the patch was refused: %s", node, detail)

    def patched(self, outcome: Outcome) -> None:
        self._patches.labels(outcome).inc()

    def api_server_away(self, detail: str) -> None:
        log.warning("the API server is away, wishes are kept: %s", detail)
        self._away.set(1)

    def api_server_back(self) -> None:
        log.info("the API server answers again")
        self._away.set(0)

    def api_server_throttles(self, seconds: float) -> None:
        log.warning("the API server asks to wait %.1f s", seconds)
