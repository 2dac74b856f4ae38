"""Reads a Kafka topic from its beginning to its end as of now: an independent witness."""

import asyncio
from collections.abc import Iterable
from typing import TypeVar

import aiokafka
import msgspec

from wire import aggregate, codec, topics, verdict

T = TypeVar("T", bound=msgspec.Struct)


def read(bootstrap: str, topic: str) -> list[aiokafka.ConsumerRecord]:
    """Every record of the topic, by partition and offset."""
    return asyncio.run(_read(bootstrap, topic))


async def _read(bootstrap: str, topic: str) -> list[aiokafka.ConsumerRecord]:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        cluster = await consumer._client.fetch_all_metadata()
        numbers = cluster.partitions_for_topic(topic)
        partitions = [aiokafka.TopicPartition(topic, n) for n in sorted(numbers or ())]
        consumer.assign(partitions)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(partitions)
        records: list[aiokafka.ConsumerRecord] = []
        for partition in partitions:
            while await consumer.position(partition) < ends[partition]:
                got = await consumer.getmany(partition, timeout_ms=1000)
                records += got.get(partition, [])
        return records
    finally:
        await consumer.stop()


def decoded(bootstrap: str, topic: str, shape: type[T]) -> list[T]:
    """Every message of the topic that has a value."""
    return [codec.decode(r.value, shape) for r in read(bootstrap, topic) if r.value is not None]


def decisions(bootstrap: str) -> list[verdict.Decision]:
    """Every decision, oldest first."""
    made = decoded(bootstrap, topics.DECISIONS, verdict.Decision)
    return sorted(made, key=lambda d: d.ts_unix_ms)


def final_aggregates(bootstrap: str) -> list[aggregate.Aggregate]:
    """Of each node and window the highest revision, as a consumer is told to keep."""
    return highest(decoded(bootstrap, topics.AGGREGATES, aggregate.Aggregate))


def highest(aggregates: Iterable[aggregate.Aggregate]) -> list[aggregate.Aggregate]:
    """The highest revision of each (cluster, node, window)."""
    best: dict[tuple[str, str, int], aggregate.Aggregate] = {}
    for made in aggregates:
        key = (made.cluster, made.node, made.window_start_unix_ms)
        if key not in best or made.revision > best[key].revision:
            best[key] = made
    return list(best.values())


def readings(aggregates: Iterable[aggregate.Aggregate]) -> int:
    """GPU readings that these aggregates stand for."""
    return sum(gpu.readings for made in aggregates for gpu in made.gpus)
