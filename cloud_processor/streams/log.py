"""Kafka beside Faust: are the topics right, and what do they say of the whole fleet.

The check runs before Faust starts, because Faust would make a missing topic with one
partition and then refuse its own work. It reads the cluster's metadata; a topic that is
missing or has another number of partitions is named with the command that mends it.

The fleet view is a consumer without a group, so every worker reads all partitions:
verdicts from the beginning (the topic is compacted), decisions of the last hour,
aggregates from the end. It fills `web/fleet.py`, and so any worker answers for all.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import aiokafka
from aiokafka import errors as kafka_errors
from aiokafka import partitioner

from cloud_processor import errors
from cloud_processor import telemetry as tell
from wire import topics

REQUEST_TIMEOUT_MS = 5_000
RETRY_S = 1.0
DECISIONS_FROM_MS = 3_600_000
POLL_MS = 200
RECORDS_MAX = 1_000

Away = (kafka_errors.KafkaError, OSError)


class View(Protocol):
    """What the fleet view must be able to take."""

    def take_verdict(self, key: bytes | None, value: bytes | None, partition: int) -> None: ...
    def take_decision(self, value: bytes | None) -> None: ...
    def take_aggregate(self, value: bytes | None) -> None: ...


async def check_topics(
    bootstrap: str,
    partitions: int,
    *,
    changelogs: Iterable[str],
    wait_s: float,
    telemetry: tell.Telemetry,
) -> int:
    """Wait for Kafka, then check its topics; the replication factor of our inputs.

    Raises `KafkaUnreachable` when it does not answer in `wait_s`, `WrongTopics` when the
    topics are not what `windvane topics create` makes, or a changelog that exists has another
    number of partitions.
    """
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            found = await _describe(bootstrap)
            break
        except Away as error:
            if time.monotonic() > deadline_s:
                raise errors.KafkaUnreachable(
                    f"kafka.bootstrap: {bootstrap} did not answer for {wait_s:.0f} s: {error!r}"
                ) from error
            telemetry.kafka_away(repr(error))
            await asyncio.sleep(RETRY_S)
    counts = {name: len(places) for name, places in found.items()}
    problems = topics.topic_problems(topics.topic_specs(partitions), counts)
    problems += [
        f"topic {name} has {counts[name]} partitions, must have {partitions}; with another number"
        " of partitions the state is worthless: delete the topic"
        for name in changelogs
        if counts.get(name, partitions) != partitions
    ]
    if problems:
        lines = "\n".join(f"kafka: {problem}" for problem in problems)
        command = f"windvane topics create --bootstrap {bootstrap} --partitions {partitions}"
        raise errors.WrongTopics(f"{lines}\nrun: {command}")
    return min(found[topics.LIVE].values())


async def _describe(bootstrap: str) -> dict[str, dict[int, int]]:
    """Topic to partition to number of replicas, as the metadata says."""
    client = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS
    )
    try:
        await client.start()
        cluster = await client._client.fetch_all_metadata()  # noqa: SLF001 - has the replicas
        return {
            name: {p: len(place.replicas) for p, place in places.items()}
            for name, places in cluster._partitions.items()  # noqa: SLF001 - no public place
        }
    finally:
        await client.stop()


def key_partitioner(partitions: int) -> Callable[[bytes], int]:
    """Where a record with this key goes: as the bridge's producer, and Java's, choose."""
    everything = list(range(partitions))
    choose = partitioner.DefaultPartitioner()
    return lambda key: choose(key, everything, everything)


class FleetReader:
    """Keeps a view of the whole fleet filled; starts again by itself after a failure."""

    def __init__(
        self, *, bootstrap: str, partitions: int, view: View, telemetry: tell.Telemetry
    ) -> None:
        self._bootstrap = bootstrap
        self._partitions = partitions
        self._view = view
        self._telemetry = telemetry

    async def run(self) -> None:
        """Read for ever; ends by cancellation."""
        while True:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=POLL_MS,
            )
            try:
                await consumer.start()
                await self._seek(consumer)
                await self._read(consumer)
            except Away as error:
                self._telemetry.view_failed(repr(error))
                await asyncio.sleep(RETRY_S)
            finally:
                await consumer.stop()

    async def _seek(self, consumer: Any) -> None:
        places = {
            name: [aiokafka.TopicPartition(name, p) for p in range(self._partitions)]
            for name in (topics.VERDICTS, topics.DECISIONS, topics.AGGREGATES)
        }
        consumer.assign([tp for tps in places.values() for tp in tps])
        await consumer.seek_to_beginning(*places[topics.VERDICTS])
        await consumer.seek_to_end(*places[topics.AGGREGATES])
        since_ms = time.time_ns() // 1_000_000 - DECISIONS_FROM_MS
        found = await consumer.offsets_for_times(dict.fromkeys(places[topics.DECISIONS], since_ms))
        for place in places[topics.DECISIONS]:
            at = found.get(place)
            if at is None:
                await consumer.seek_to_end(place)
            else:
                consumer.seek(place, at.offset)

    async def _read(self, consumer: Any) -> None:
        while True:
            batch = await consumer.getmany(timeout_ms=1_000, max_records=RECORDS_MAX)
            for place, records in batch.items():
                for record in records:
                    self._take(place.topic, record)
            await asyncio.sleep(0)

    def _take(self, topic: str, record: Any) -> None:
        if topic == topics.VERDICTS:
            self._view.take_verdict(record.key, record.value, record.partition)
        elif topic == topics.DECISIONS:
            self._view.take_decision(record.value)
        else:
            self._view.take_aggregate(record.value)
