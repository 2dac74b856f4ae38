"""What happens in the bridge, each happening told once: its log line and its metric.

The registry is passed in, so that two bridges in one process do not meet. What happens
with every message has only a metric, and its labelled children are made beforehand.
"""

import logging
from typing import Final, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from wire import topics
from wire.errors import Reason

_log: Final = logging.getLogger("windvane.bridge")
_SECONDS: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Telemetry:
    """The voice of one bridge."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"windvane_bridge_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"windvane_bridge_{name}", text, registry=registry)

        self.registry = registry
        received = counter("messages_received", "Messages from the broker.", "lane")
        forwarded = counter("messages_forwarded", "Messages that Kafka holds.", "lane")
        dead = counter("dead_letters", "Messages that went to the dead letters.", "reason")
        self._received = {lane: received.labels(lane) for lane in (*topics.LANES, "none")}
        self._forwarded = {lane: forwarded.labels(lane) for lane in topics.LANES}
        self._dead = {reason: dead.labels(reason) for reason in get_args(Reason)}
        self._acknowledged = counter("messages_acknowledged", "PUBACKs sent.")
        self._seconds = Histogram(
            "windvane_bridge_delivery_seconds",
            "From arrival until Kafka holds the message.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._confirmed = counter("confirmations", "Confirmations published.")
        self._unconfirmed = counter("confirmations_failed", "Confirmations that did not get out.")
        self._dropped = counter("messages_dropped", "QoS 0 messages beyond the bound.")
        self._undeliverable = counter("messages_undeliverable", "Refused even as dead letters.")
        self._bugs = counter("internal_errors", "Messages that made the bridge itself fail.")
        self._connected = gauge("mqtt_connected", "1 while subscribed at the broker.")
        self._links = counter("mqtt_connections", "Connections opened.")
        self._link_losses = counter("mqtt_connections_lost", "Connections ended or refused.")
        self._pauses = counter("pauses", "Times the broker sent too much to read on.")
        self._kafka_up = gauge("kafka_connected", "1 while a producer is in use.")
        self._rebuilds = counter("kafka_producers_replaced", "Producers given up.")
        self._kafka_away = counter("kafka_connects_failed", "Attempts to reach Kafka that failed.")
        self._waits = counter("kafka_waits", "Times a full producer made us wait.")
        self._open = gauge("messages_open", "Messages received that Kafka does not hold yet.")
        self._oldest = gauge("oldest_open_seconds", "Age of the oldest of them.")

    def starting(self, client_id: str, group: str) -> None:
        _log.info("bridge-starting client_id=%s group=%s", client_id, group)

    def stopped(self, open_count: int) -> None:
        _log.info("bridge-stopped left_to_the_broker=%d", open_count)

    def received(self, lane: topics.Lane | None) -> None:
        self._received[lane or "none"].inc()

    def forwarded(self, lane: topics.Lane, seconds: float) -> None:
        self._forwarded[lane].inc()
        self._seconds.observe(seconds)

    def dead_letter(self, reason: Reason, origin: str, detail: str) -> None:
        self._dead[reason].inc()
        _log.warning("dead-letter reason=%s origin=%.200r detail=%.500r", reason, origin, detail)

    def acknowledged(self, count: int) -> None:
        self._acknowledged.inc(count)

    def confirmed(self) -> None:
        self._confirmed.inc()

    def confirmations_failed(self, count: int) -> None:
        self._unconfirmed.inc(count)
        _log.info("confirmations-kept count=%d", count)

    def dropped_unpromised(self, origin: str) -> None:
        self._dropped.inc()
        _log.warning("qos0-message-dropped origin=%.200r", origin)

    def undeliverable(self, origin: str) -> None:
        self._undeliverable.inc()
        _log.error("undeliverable origin=%.200r: Kafka refuses it even as a dead letter", origin)

    def internal_error(self, origin: str) -> None:
        self._bugs.inc()
        _log.exception("internal-error origin=%.200r", origin)

    def link_up(self, *, session_present: bool, filters: int) -> None:
        self._connected.set(1)
        self._links.inc()
        _log.info("link-up session_present=%s filters=%d", session_present, filters)

    def link_down(self, reason: str, wait_ms: int) -> None:
        self._connected.set(0)
        self._link_losses.inc()
        _log.warning("link-down reason=%r retry_in_ms=%d", reason, wait_ms)

    def link_flaps(self, client_id: str) -> None:
        _log.error(
            "link-flaps: the broker closes each connection soon after it was opened; "
            "is the session taken over by another client with client_id=%s?",
            client_id,
        )

    def paused(self, open_count: int) -> None:
        self._pauses.inc()
        _log.debug("reading-paused open=%d: the broker sent beyond our maximum", open_count)

    def link_waits_for_kafka(self, open_count: int) -> None:
        _log.warning("link-waits-for-kafka open=%d", open_count)

    def producer_up(self) -> None:
        self._kafka_up.set(1)
        _log.info("producer-up")

    def producer_replaced(self, reason: str, open_count: int) -> None:
        self._kafka_up.set(0)
        self._rebuilds.inc()
        _log.warning("producer-replaced reason=%r sent_again=%d", reason, open_count)

    def kafka_away(self, reason: str, wait_ms: int) -> None:
        self._kafka_away.inc()
        _log.warning("kafka-away reason=%r retry_in_ms=%d", reason, wait_ms)

    def producer_full(self) -> None:
        self._waits.inc()
        _log.warning("producer-full")

    def progress(self, open_count: int, oldest_ms: int) -> None:
        self._open.set(open_count)
        self._oldest.set(oldest_ms / 1000)
