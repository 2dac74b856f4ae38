"""The loop that joins MQTT and Kafka.

A message arrives, is routed, gets a ticket and is put to Kafka, all in one go and
without waiting; when Kafka holds it, the ledger says which packets may be acknowledged.
What is in our hands is bounded: the broker should send no more than MQTT's receive
maximum before it is acknowledged, and as some send more when a session is resumed, the
socket is not read beyond twice that. To keep the bound over reconnects, a new connection
is opened only when Kafka holds everything of the earlier ones: the broker sends again
what was not acknowledged, and with Kafka away that would pile up here.

Confirmations go out once per interval and node, with a small window of their own; those
that did not get out are kept and go out on the next connection.
"""

import asyncio
import contextlib
import random
import time
from collections import deque
from typing import Final

from msgspec import Struct

from bridge import config, errors, kafka, mqtt
from bridge.core import backoff, ledger, route
from bridge.telemetry import Telemetry
from wire import codec, sample, topics

CONFIRM_WINDOW: Final = 32
OVERSHOOT: Final = 2
RANGE_BYTES: Final = 40
FRAME_BYTES: Final = 600
FLAPS_TOLD: Final = 3
RANGES_MAX: Final = 500
WAIT_TOLD_S: Final = 10.0
STOP_TIMEOUT_S: Final = 2.5


class Facts(Struct, frozen=True):
    """How things stand, for health."""

    is_linked: bool
    is_kafka_connected: bool
    open_count: int
    oldest_ms: int


class Forwarder:
    """Everything between the broker and Kafka."""

    def __init__(self, settings: config.Settings, telemetry: Telemetry) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._ledger = ledger.Ledger(OVERSHOOT * settings.mqtt.receive_maximum)
        self._log = kafka.Log(settings.kafka, telemetry, self._settled)
        self._arrived_ms: dict[int, int] = {}
        self._session: mqtt.Session | None = None
        self._greeting: mqtt.Greeting | None = None
        self._lost: asyncio.Future[str] | None = None
        self._is_leaving = False
        self._was_open = False
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._to_confirm: deque[route.Claim] = deque()
        self._confirming: dict[int, route.Claim] = {}

    def facts(self) -> Facts:
        """How things stand now."""
        oldest_ms = self._ledger.oldest_ms
        return Facts(
            self._greeting is not None,
            self._log.is_connected,
            self._ledger.open_count,
            0 if oldest_ms is None else _now_ms() - oldest_ms,
        )

    async def run_log(self) -> None:
        """Keep Kafka fed; ends by cancellation."""
        await self._log.run()

    async def run_link(self) -> None:
        """Keep a session with the broker; ends by cancellation or `SubscriptionRefused`."""
        mqtt_settings = self._settings.mqtt
        waiting = backoff.Backoff(
            min_ms=mqtt_settings.backoff_min_ms, max_ms=mqtt_settings.backoff_max_ms
        )
        while True:
            await self._drained()
            opened_ms = _now_ms()
            reason = await self._serve_once()
            waiting = backoff.after_success(waiting, _now_ms() - opened_ms)
            waiting, wait_ms = backoff.after_failure(waiting, random.random())  # noqa: S311
            self._telemetry.link_down(reason, wait_ms)
            if waiting.tries >= FLAPS_TOLD and self._was_open:
                self._telemetry.link_flaps(mqtt_settings.client_id)
            await asyncio.sleep(wait_ms / 1000)

    async def run_confirm(self) -> None:
        """Confirm what Kafka holds, each interval; ends by cancellation."""
        while True:
            await asyncio.sleep(self._settings.confirm.interval_ms / 1000)
            self._confirm()

    async def leave(self) -> int:
        """Bring to an end what is in hand, as far as it goes quickly; what is left over."""
        session, self._is_leaving = self._session, True
        if session is not None:
            session.pause()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await self._is_empty.wait()
            self._to_confirm.extend(self._ledger.take_claims())
            self._publish_confirmations(window=mqtt.IN_FLIGHT_MAX)
            await asyncio.sleep(0)
            await session.close(politely=True)
        return self._ledger.open_count

    async def _drained(self) -> None:
        while not self._is_empty.is_set():
            try:
                async with asyncio.timeout(WAIT_TOLD_S):
                    await self._is_empty.wait()
            except TimeoutError:
                self._telemetry.link_waits_for_kafka(self._ledger.open_count)

    async def _serve_once(self) -> str:
        """One session from beginning to end; the reason why it ended."""
        self._lost = asyncio.get_running_loop().create_future()
        self._was_open = False
        self._ledger.connected()
        listener = mqtt.Listener(self._arrived, self._answered, self._is_lost)
        self._session = session = mqtt.Session(self._settings.mqtt, listener)
        try:
            self._greeting = await session.open()
            self._was_open = True
            self._telemetry.link_up(
                session_present=self._greeting.session_present, filters=len(topics.LANES)
            )
            self._publish_confirmations()
            return await self._lost
        except errors.LinkError as error:
            return str(error)
        finally:
            self._session = None
            self._greeting = None
            await session.close(politely=False)
            self._keep_confirmations()

    # What the session tells.

    def _arrived(self, packet: int | None, topic: str, payload: bytes) -> None:
        now_ms = _now_ms()
        ticket = self._ledger.arrived(packet, now_ms)
        if ticket is None:
            assert packet is None, "a full ledger pauses the session"
            self._telemetry.dropped_unpromised(topic)
            return
        self._is_empty.clear()
        record = self._route(topic, payload)
        self._telemetry.received(record.lane if isinstance(record, route.Forward) else None)
        self._arrived_ms[ticket] = now_ms
        self._log.put(ticket, record, _wall_ms())
        if self._ledger.is_full and self._session is not None:
            self._telemetry.paused(self._ledger.open_count)
            self._session.pause()

    def _route(self, topic: str, payload: bytes) -> route.Routed:
        limit = self._settings.kafka.message_bytes_max
        try:
            return route.route(topic, payload, limit)
        except Exception as bug:  # noqa: BLE001 - a message must not kill us again and again
            self._telemetry.internal_error(topic)
            return route.internal_error(topic, payload, repr(bug), limit)

    def _answered(self, mid: int, code: int) -> None:
        claim = self._confirming.pop(mid, None)
        if claim is not None:
            if code < mqtt.REFUSED_FROM:
                self._telemetry.confirmed()
            else:
                self._telemetry.confirmations_failed(1)
        self._publish_confirmations()

    def _is_lost(self, reason: str) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(reason)

    # What Kafka tells.

    def _settled(self, ticket: int, record: route.Routed, outcome: kafka.Outcome) -> None:
        if outcome == "too-large":
            smaller = route.refused_as_too_large(record)
            if smaller is not None:
                self._log.put(ticket, smaller, _wall_ms())
                return
            self._telemetry.undeliverable(record.origin)
        now_ms = _now_ms()
        waited_ms = now_ms - self._arrived_ms.pop(ticket, now_ms)
        if outcome == "held":
            if isinstance(record, route.DeadLetter):
                self._telemetry.dead_letter(record.reason, record.origin, record.detail)
            else:
                self._telemetry.forwarded(record.lane, waited_ms / 1000)
        packets = self._ledger.held(ticket, record.claim if outcome == "held" else None)
        if self._ledger.open_count == 0:
            self._is_empty.set()
        if packets and self._session is not None:
            self._session.acknowledge(packets)
            self._telemetry.acknowledged(len(packets))
            if (
                not self._is_leaving
                and self._ledger.unacknowledged_count < self._settings.mqtt.receive_maximum
            ):
                self._session.resume()

    # Confirmations.

    def _confirm(self) -> None:
        if self._greeting is not None and not self._to_confirm:
            packet_bytes = self._greeting.packet_bytes_max
            ranges_max = max(1, min(RANGES_MAX, (packet_bytes - FRAME_BYTES) // RANGE_BYTES))
            for claim in self._ledger.take_claims():
                self._to_confirm.extend(ledger.split(claim, ranges_max))
            self._publish_confirmations()

    def _publish_confirmations(self, window: int = CONFIRM_WINDOW) -> None:
        if self._session is None or self._greeting is None:
            return
        window = min(window, self._greeting.in_flight_max)
        while self._to_confirm and len(self._confirming) < window:
            claim = self._to_confirm[0]
            message = sample.Confirmation(v=sample.VERSION, epoch=claim.epoch, ranges=claim.ranges)
            topic = topics.mqtt_topic(claim.cluster, claim.node, "confirmed")
            try:
                mid = self._session.publish(topic, codec.encode(message))
            except errors.LinkError:
                return
            self._to_confirm.popleft()
            self._confirming[mid] = claim

    def _keep_confirmations(self) -> None:
        kept = [*self._confirming.values(), *self._to_confirm]
        if kept:
            self._telemetry.confirmations_failed(len(kept))
        self._ledger.give_back(kept)
        self._confirming.clear()
        self._to_confirm.clear()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
