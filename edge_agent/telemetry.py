"""What the agent says about itself: each happening is one method, log line and metric.

`Metrics` holds the counters of the process, `Telemetry` speaks for one agent. Log lines
are `event key=value …`, metrics are labelled by node.
"""

import logging
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from edge_agent.core.parcels import Committed, Counts

_log: Final = logging.getLogger("windvane.agent")
TICK_SECONDS: Final = (0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.5, 1.0)
_LABELS: Final = ("cluster", "node")


class Metrics:
    """The agent's own counters and gauges, in the registry that is passed in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *more: str) -> Counter:
            return Counter(f"windvane_agent_{name}", text, (*_LABELS, *more), registry=registry)

        def gauge(name: str, text: str, *more: str) -> Gauge:
            return Gauge(f"windvane_agent_{name}", text, (*_LABELS, *more), registry=registry)

        self.tick_seconds = Histogram(
            "windvane_agent_tick_seconds",
            "From the start of a tick until its records are on disk.",
            _LABELS,
            buckets=TICK_SECONDS,
            registry=registry,
        )
        self.ticks_missed = counter("ticks_missed", "Ticks skipped after a stall.")
        self.readings_invalid = counter("readings_invalid", "Values that cannot be true.")
        self.source_up = gauge("source_up", "1 while the source can be read.", "source")
        self.source_reads = counter("source_reads", "Reads by outcome.", "source", "outcome")
        self.source_seconds = counter("source_read_seconds", "Time spent reading.", "source")
        self.recorded_finished = gauge("recorded_finished", "1 when the recording has ended.")
        self.records_sampled = gauge("records_sampled", "Records ever written in this epoch.")
        self.records_delivered = gauge("records_delivered", "Records the bridge confirmed.")
        self.records_dropped = gauge("records_dropped", "Records given up.")
        self.records_spooled = gauge("records_spooled", "Records on disk.")
        self.spool_bytes = gauge("spool_bytes", "Disk space of the spool that is in use.")
        self.spool_law_broken = gauge(
            "spool_law_broken", "1 when sampled = delivered + spooled + dropped does not hold."
        )
        self.given_up = counter("losses", "Loss records written.", "cause")
        self.spool_failures = counter("spool_failures", "Commits that failed.")
        self.connected = gauge("connected", "1 while a session with the broker is open.")
        self.connections = counter("connections", "Sessions opened.")
        self.connections_lost = counter("connections_lost", "Sessions ended or refused.")
        self.published = counter("messages_published", "Messages sent.", "lane")
        self.refused = counter("messages_refused", "Messages the broker refused.", "lane", "code")
        self.unheard = counter("messages_unheard", "Messages that had no subscriber.")
        self.oversize = counter("records_oversize", "Records larger than allowed.", "whose")
        self.confirmations_bad = counter("confirmations_malformed", "Confirmations not understood.")
        self.confirmations_foreign = counter("confirmations_foreign", "Of another epoch.")
        self.restarts = counter("restarts", "Times the agent died and was started again.")


class Telemetry:
    """The voice of one agent."""

    def __init__(self, metrics: Metrics, cluster: str, node: str) -> None:
        self._metrics = metrics
        self._labels = (cluster, node)
        self._node = node

    def _say(self, level: int, event: str, **facts: object) -> None:
        if _log.isEnabledFor(level):
            tail = "".join(f" {name}={value!r}" for name, value in facts.items())
            _log.log(level, "%s node=%s%s", event, self._node, tail)

    def started(self, epoch: str, spooled: int) -> None:
        self._say(logging.INFO, "agent-started", epoch=epoch, spooled=spooled)

    def stopped(self, reason: str) -> None:
        self._say(logging.INFO, "agent-stopped", reason=reason)

    def died(self, error: BaseException, wait_ms: int) -> None:
        self._metrics.restarts.labels(*self._labels).inc()
        self._say(logging.ERROR, "agent-died", error=repr(error), restart_in_ms=wait_ms)

    def ticked(self, seconds: float) -> None:
        self._metrics.tick_seconds.labels(*self._labels).observe(seconds)

    def ticks_missed(self, count: int) -> None:
        self._metrics.ticks_missed.labels(*self._labels).inc(count)
        self._say(logging.WARNING, "ticks-missed", count=count)

    def readings_invalid(self, count: int) -> None:
        self._metrics.readings_invalid.labels(*self._labels).inc(count)

    def memory_unreadable(self, error: str) -> None:
        self._say(logging.WARNING, "memory-unreadable", error=error)

    def source_state(self, source: str, state: str, detail: str) -> None:
        self._metrics.source_up.labels(*self._labels, source).set(state == "yes")
        level = logging.INFO if state == "yes" else logging.WARNING
        self._say(level, "source-state", source=source, state=state, detail=detail)

    def source_read(self, source: str, seconds: float) -> None:
        self._metrics.source_reads.labels(*self._labels, source, "ok").inc()
        self._metrics.source_seconds.labels(*self._labels, source).inc(seconds)

    def source_read_failed(self, source: str, error: str, *, first: bool) -> None:
        self._metrics.source_reads.labels(*self._labels, source, "failed").inc()
        if first:
            self._say(logging.WARNING, "source-read-failed", source=source, error=error)

    def source_hangs(self, source: str, waited_ms: int) -> None:
        self._metrics.source_up.labels(*self._labels, source).set(0)
        self._metrics.source_reads.labels(*self._labels, source, "hung").inc()
        self._say(logging.ERROR, "source-hangs", source=source, waited_ms=waited_ms)

    def source_back(self, source: str) -> None:
        self._metrics.source_up.labels(*self._labels, source).set(1)
        self._say(logging.INFO, "source-back", source=source)

    def source_finished(self, source: str) -> None:
        if source == "recorded":
            self._metrics.recorded_finished.labels(*self._labels).set(1)
        self._say(logging.INFO, "source-finished", source=source)

    def fields_unsupported(self, gpu_uuid: str, fields: tuple[str, ...]) -> None:
        self._say(logging.INFO, "fields-unsupported", gpu=gpu_uuid, fields=",".join(fields))

    def control_line_skipped(self, line: str, problem: str) -> None:
        self._say(logging.WARNING, "control-line-skipped", line=line[:200], problem=problem)

    def happened(self, event: str, gpu_uuid: str | None, detail: str) -> None:
        self._say(logging.WARNING, "event", name=event, gpu=gpu_uuid, detail=detail)

    def spool_counts(self, counts: Counts) -> None:
        metrics = self._metrics
        metrics.records_sampled.labels(*self._labels).set(counts.sampled)
        metrics.records_delivered.labels(*self._labels).set(counts.delivered)
        metrics.records_spooled.labels(*self._labels).set(counts.spooled)
        metrics.records_dropped.labels(*self._labels).set(counts.dropped)
        metrics.spool_bytes.labels(*self._labels).set(counts.size_bytes)

    def committed(self, committed: Committed) -> None:
        """What a commit did beside writing the tick."""
        self.spool_counts(committed.counts)
        for loss in committed.losses:
            self._metrics.given_up.labels(*self._labels, loss.cause).inc()
            self._say(
                logging.WARNING,
                "records-given-up",
                cause=loss.cause,
                seq_from=loss.seq_from,
                seq_to=loss.seq_to,
            )

    def spool_law(self, *, holds: bool) -> None:
        self._metrics.spool_law_broken.labels(*self._labels).set(not holds)
        if not holds:
            self._say(logging.ERROR, "spool-law-broken")

    def spool_failed(self, error: Exception, records: int) -> None:
        self._metrics.spool_failures.labels(*self._labels).inc()
        self._say(logging.ERROR, "spool-failed", error=str(error), records_lost=records)

    def link_up(self, *, in_flight_max: int, packet_bytes_max: int) -> None:
        self._metrics.connected.labels(*self._labels).set(1)
        self._metrics.connections.labels(*self._labels).inc()
        self._say(
            logging.INFO, "link-up", in_flight_max=in_flight_max, packet_bytes_max=packet_bytes_max
        )

    def link_down(self, reason: str, wait_ms: int) -> None:
        self._metrics.connected.labels(*self._labels).set(0)
        self._metrics.connections_lost.labels(*self._labels).inc()
        self._say(logging.WARNING, "link-down", reason=reason, retry_in_ms=wait_ms)

    def published(self, lane: str) -> None:
        self._metrics.published.labels(*self._labels, lane).inc()

    def refused(self, lane: str, code: int) -> None:
        self._metrics.refused.labels(*self._labels, lane, f"0x{code:02x}").inc()
        self._say(logging.ERROR, "message-refused", lane=lane, code=f"0x{code:02x}")

    def unheard(self) -> None:
        self._metrics.unheard.labels(*self._labels).inc()

    def oversize(self, seq: int, whose: str) -> None:
        self._metrics.oversize.labels(*self._labels, whose).inc()
        self._say(logging.WARNING, "record-oversize", seq=seq, limit_of=whose)

    def confirmation_malformed(self, detail: str) -> None:
        self._metrics.confirmations_bad.labels(*self._labels).inc()
        self._say(logging.WARNING, "confirmation-malformed", detail=detail)

    def confirmation_foreign(self, epoch: str) -> None:
        self._metrics.confirmations_foreign.labels(*self._labels).inc()
        self._say(logging.INFO, "confirmation-foreign", epoch=epoch)

    def subscription_refused(self, code: int) -> None:
        self._say(logging.ERROR, "subscription-refused", code=f"0x{code:02x}")
