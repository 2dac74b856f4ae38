"""Creates and checks the Kafka topics: the one place where their configuration is written.

The programs themselves check only what metadata shows (that the topics are there and
have one partition count), so that they need no admin rights; configuration is checked
here.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from aiokafka import admin
from aiokafka import errors as kafka_errors

from ctl import errors
from wire import topics

MESSAGE_BYTES_MAX: Final = 1_000_000
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.ms": "60000",
    "min.cleanable.dirty.ratio": "0.05",
    "delete.retention.ms": "86400000",
}


def create(bootstrap: str, partitions: int, replication: int = 1) -> list[str]:
    """Create the topics that are missing; a line for each. Raises `CtlError`."""
    return asyncio.run(_create(bootstrap, partitions, replication))


def check(bootstrap: str, partitions: int) -> list[str]:
    """Everything that is wrong with the topics, one line each. Raises `CtlError`."""
    return asyncio.run(_check(bootstrap, partitions))


def config_of(spec: topics.TopicSpec) -> Mapping[str, str]:
    """A topic's configuration as Kafka takes it."""
    size = {"max.message.bytes": str(MESSAGE_BYTES_MAX)}
    if spec.compacted:
        return {**COMPACTED, **size}
    return {"cleanup.policy": "delete", "retention.ms": str(spec.retention_ms), **size}


def config_problems(spec: topics.TopicSpec, actual: Mapping[str, Any]) -> list[str]:
    """What is wrong with a topic's configuration; keeping records longer is no fault."""
    wanted = config_of(spec)
    policy = actual.get("cleanup.policy")
    problems = []
    if policy != wanted["cleanup.policy"]:
        must = wanted["cleanup.policy"]
        problems.append(f"topic {spec.name}: cleanup.policy is {policy}, must be {must}")
    for key in ("retention.ms", "max.message.bytes"):
        least, found = wanted.get(key), int(actual.get(key, -1))
        if least is not None and 0 <= found < int(least):
            problems.append(f"topic {spec.name}: {key} is {found}, must be {least} or more")
    return problems


async def _create(bootstrap: str, partitions: int, replication: int) -> list[str]:
    client = await _connect(bootstrap)
    try:
        there = set(await client.list_topics())
        missing = [s for s in topics.topic_specs(partitions) if s.name not in there]
        new = [
            admin.NewTopic(s.name, s.partitions, replication, topic_configs=dict(config_of(s)))
            for s in missing
        ]
        if new:
            answer = await client.create_topics(new)
            failed = [f"{name}: {text}" for name, code, text in answer.topic_errors if code]
            if failed:
                raise errors.CtlError("; ".join(failed))
        return [f"created {s.name} ({s.partitions} partitions)" for s in missing]
    finally:
        await client.close()


async def _check(bootstrap: str, partitions: int) -> list[str]:
    client = await _connect(bootstrap)
    try:
        specs = topics.topic_specs(partitions)
        described = await client.describe_topics()  # by name, a broker might make them
        counts = {t["topic"]: len(t["partitions"]) for t in described if not t["error_code"]}
        problems = topics.topic_problems(specs, counts)
        there = [s for s in specs if s.name in counts]
        return problems + await _config_problems(client, there)
    finally:
        await client.close()


async def _config_problems(
    client: admin.AIOKafkaAdminClient, specs: list[topics.TopicSpec]
) -> list[str]:
    wanted = [
        admin.config_resource.ConfigResource(admin.config_resource.ConfigResourceType.TOPIC, s.name)
        for s in specs
    ]
    actual: dict[str, dict[str, Any]] = {}
    for reply in await client.describe_configs(wanted) if wanted else ():
        for _, _, _, name, entries in reply.resources:
            actual[name] = {entry[0]: entry[1] for entry in entries}
    return [line for s in specs for line in config_problems(s, actual.get(s.name, {}))]


async def _connect(bootstrap: str) -> admin.AIOKafkaAdminClient:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # it would say what we say below
    client = admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=10_000)
    try:
        await client.start()
    except (kafka_errors.KafkaError, OSError, ValueError) as error:
        await client.close()
        raise errors.CtlError(f"Kafka at {bootstrap} does not answer: {error}") from error
    return client
