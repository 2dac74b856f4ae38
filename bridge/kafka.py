"""The way into Kafka: one idempotent producer, replaced when it fails.

Records go out in the order in which they were put, many in flight, one producer at a
time. Idempotence keeps the order within a partition over aiokafka's own retries. When a
batch fails for good, the batches behind it fail too (their sequence numbers leave a
gap), so the producer is given up and all that it did not deliver goes out again, in
order, by a new one. Kafka may then hold a record twice; it has the same id.

A record that Kafka finds too large fails the whole batch it is in. Which one it was
shows when each of them is sent alone.

Records that are put and not settled are bounded by whoever puts them.
"""

import asyncio
import contextlib
import functools
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal

import aiokafka
import msgspec
from aiokafka import admin
from aiokafka import errors as kafka_errors

from bridge import config, errors
from bridge.core import backoff
from bridge.core.route import Routed
from bridge.telemetry import Telemetry
from wire import topics

BATCH_BYTES: Final = 262_144
SPARE_BYTES: Final = 65_536
REQUEST_TIMEOUT_MS: Final = 10_000
CONNECT_TIMEOUT_S: Final = 15.0
ABANDON_TIMEOUT_S: Final = 1.0
WATCH_S: Final = 1.0
RETRY_MIN_MS: Final = 100
RETRY_MAX_MS: Final = 5_000

Away = (kafka_errors.KafkaError, OSError, TimeoutError)
TooLarge = (kafka_errors.MessageSizeTooLargeError, kafka_errors.RecordListTooLargeError)
Outcome = Literal["held", "too-large"]
Settled = Callable[[int, Routed, Outcome], None]


class _Entry(msgspec.Struct):
    ticket: int
    record: Routed
    timestamp_ms: int
    is_suspect: bool = False
    sent_s: float = 0.0


async def check_topics(settings: config.Kafka, telemetry: Telemetry) -> None:
    """Wait for Kafka, then look at its topics. Raises `KafkaUnreachable`, `WrongTopics`.

    Only metadata of what is there is asked for: no rights beyond describing are needed,
    and a broker that makes topics by itself has no reason to make one.
    """
    deadline_s = time.monotonic() + settings.start_timeout_ms / 1000
    waiting = backoff.Backoff(min_ms=RETRY_MIN_MS, max_ms=RETRY_MAX_MS)
    while True:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                counts = await _partition_counts(settings.bootstrap)
            break
        except Away as error:
            if time.monotonic() > deadline_s:
                raise errors.KafkaUnreachable(
                    f"kafka.bootstrap: {settings.bootstrap} did not answer for "
                    f"{settings.start_timeout_ms} ms: {error!r}"
                ) from error
            waiting, wait_ms = backoff.after_failure(waiting, random.random())  # noqa: S311
            telemetry.kafka_away(repr(error), wait_ms)
            await asyncio.sleep(wait_ms / 1000)
    problems = topics.topic_problems(topics.topic_specs(settings.partitions), counts)
    if problems:
        command = (
            f"windvane topics create --bootstrap {settings.bootstrap} "
            f"--partitions {settings.partitions}"
        )
        lines = "\n".join(f"kafka: {problem}" for problem in problems)
        raise errors.WrongTopics(f"{lines}\nrun: {command}")


async def _partition_counts(bootstrap: str) -> dict[str, int]:
    client = admin.AIOKafkaAdminClient(
        bootstrap_servers=bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS
    )
    try:
        await client.start()
        described = await client.describe_topics()
        return {t["topic"]: len(t["partitions"]) for t in described if not t["error_code"]}
    finally:
        await client.close()


class Log:
    """Where records are put; `settled` hears what became of each, once."""

    def __init__(self, settings: config.Kafka, telemetry: Telemetry, settled: Settled) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._settled = settled
        self._todo: deque[_Entry] = deque()
        self._sent: dict[int, _Entry] = {}
        self._wake = asyncio.Event()
        self._broken: asyncio.Future[str] | None = None
        self._backoff = backoff.Backoff(min_ms=RETRY_MIN_MS, max_ms=RETRY_MAX_MS, lasted_ms=0)
        self.is_connected = False

    @property
    def open_count(self) -> int:
        """Records put that Kafka does not hold yet."""
        return len(self._todo) + len(self._sent)

    def put(self, ticket: int, record: Routed, timestamp_ms: int) -> None:
        """Send a record after all that were put before; never waits."""
        self._todo.append(_Entry(ticket, record, timestamp_ms))
        self._wake.set()

    async def run(self) -> None:
        """Send for ever; ends by cancellation."""
        while True:
            producer = await self._connect()
            reason = "stopped"
            try:
                reason = await self._pump(producer)
            finally:
                self.is_connected = False
                await _abandon(producer)
            self._telemetry.producer_replaced(reason, len(self._sent))
            self._todo.extendleft(reversed(self._sent.values()))
            self._sent.clear()
            await self._pause(reason)

    async def _connect(self) -> aiokafka.AIOKafkaProducer:
        while True:
            producer = self._producer()
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await producer.start()
            except Away as error:
                await _abandon(producer)
                await self._pause(repr(error))
            except BaseException:
                await _abandon(producer)
                raise
            else:
                self.is_connected = True
                self._telemetry.producer_up()
                return producer

    def _producer(self) -> aiokafka.AIOKafkaProducer:
        return aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._settings.bootstrap,
            acks="all",
            enable_idempotence=True,
            linger_ms=self._settings.linger_ms,
            max_batch_size=BATCH_BYTES,
            max_request_size=self._settings.message_bytes_max + SPARE_BYTES,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            metadata_max_age_ms=60_000,
        )

    async def _pause(self, reason: str) -> None:
        self._backoff, wait_ms = backoff.after_failure(self._backoff, random.random())  # noqa: S311
        self._telemetry.kafka_away(reason, wait_ms)
        await asyncio.sleep(wait_ms / 1000)

    async def _pump(self, producer: aiokafka.AIOKafkaProducer) -> str:
        """Send until the producer fails; why it did."""
        self._broken = asyncio.get_running_loop().create_future()
        tasks = [
            asyncio.ensure_future(self._send_all(producer, self._broken)),
            asyncio.ensure_future(self._watch()),
        ]
        try:
            await asyncio.wait({*tasks, self._broken}, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            return self._broken.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_all(
        self, producer: aiokafka.AIOKafkaProducer, broken: "asyncio.Future[str]"
    ) -> None:
        while True:
            while self._todo:
                entry = self._todo[0]
                try:
                    future = await self._send(producer, entry)
                except TooLarge:
                    self._todo.popleft()
                    self._settled(entry.ticket, entry.record, "too-large")
                    continue
                except Away as error:
                    self._break(repr(error))
                    await broken
                    return
                self._todo.popleft()
                self._sent[entry.ticket] = entry
                future.add_done_callback(functools.partial(self._done, entry))
                if entry.is_suspect:
                    await asyncio.wait({future})
            self._wake.clear()
            await self._wake.wait()

    async def _send(self, producer: aiokafka.AIOKafkaProducer, entry: _Entry) -> Any:
        """Hand over one record, waiting while the producer is full."""
        record = entry.record
        while True:
            entry.sent_s = time.monotonic()
            try:
                return await producer.send(
                    record.topic,
                    record.value,
                    key=record.key,
                    headers=record.headers,
                    timestamp_ms=entry.timestamp_ms,
                )
            except kafka_errors.KafkaTimeoutError:
                self._telemetry.producer_full()

    def _done(self, entry: _Entry, future: "asyncio.Future[Any]") -> None:
        if future.cancelled():
            return
        error = future.exception()
        try:
            if error is None:
                self._settle(entry, "held")
                if self._backoff.tries:
                    self._backoff = backoff.after_success(self._backoff, 0)
                return
            if isinstance(error, TooLarge) and entry.is_suspect:
                self._settle(entry, "too-large")
        except Exception as bug:  # noqa: BLE001 - a callback has no caller; `run` raises it
            if self._broken is not None and not self._broken.done():
                self._broken.set_exception(bug)
            return
        entry.is_suspect |= isinstance(error, TooLarge)
        self._break(repr(error))

    def _settle(self, entry: _Entry, outcome: Outcome) -> None:
        if self._sent.pop(entry.ticket, None) is not None:  # else sent again meanwhile
            self._settled(entry.ticket, entry.record, outcome)

    def _break(self, reason: str) -> None:
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(reason)

    async def _watch(self) -> None:
        """A producer that answers nothing for too long is broken as well."""
        timeout_s = self._settings.delivery_timeout_ms / 1000
        while True:
            await asyncio.sleep(WATCH_S)
            oldest = next(iter(self._sent.values()), None)
            if oldest is not None and time.monotonic() - oldest.sent_s > timeout_s:
                self._break(f"no answer for {timeout_s:.0f} s")


async def _abandon(producer: aiokafka.AIOKafkaProducer) -> None:
    """Let go of a producer without waiting for what it still wants to deliver.

    Its own `stop` waits until everything is delivered, which may be never. The sender
    task is cancelled twice: at the first it waits for its requests, at the second it
    gives them up.
    """
    producer._closed = True  # noqa: SLF001 - no public way to give up
    sending = producer._sender.sender_task  # noqa: SLF001
    for _ in range(2):
        if sending is not None and not sending.done():
            sending.cancel()
            await asyncio.wait({sending}, timeout=ABANDON_TIMEOUT_S)
    with contextlib.suppress(*Away):
        async with asyncio.timeout(ABANDON_TIMEOUT_S):
            await producer.client.close()
