"""A worker dies under load: nothing is lost, and commits go on to the end.

This is the test of the mends in `streams/transport.py` on real Kafka, with a count that
owes nothing to Faust. WINDVANE_KILL_RUNS=10 is the long form.
"""

import asyncio
import os
import random
import uuid

import aiokafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient

from support import kafka_reader
from support.processor_runner import Feeder, Worker, unix_ms, until
from wire import codec, topics
from wire.aggregate import Aggregate
from wire.sample import Envelope, Status

RUNS = int(os.environ.get("WINDVANE_KILL_RUNS", "1"))
NODES = 24
SECONDS = 16
PER_NODE_AND_SECOND = 8

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


async def committed_lag(bootstrap, group):
    """Records between committed and end, over our input topics; None is not committed."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        offsets = await admin.list_consumer_group_offsets(group)
        ends = await consumer.end_offsets(list(offsets))
        return {place: ends[place] - meta.offset for place, meta in offsets.items()}
    finally:
        await consumer.stop()
        await admin.close()


async def load(feed, names, seconds):
    """Samples of many nodes at a steady rate."""
    sent = []
    for _ in range(seconds * PER_NODE_AND_SECOND):
        now_ms = unix_ms()
        for node in names:
            sample = feed.sample(node, now_ms, gpus=1)
            envelope = Envelope(
                v=1,
                cluster=feed.cluster,
                node=node,
                epoch="0123456789abcdef",
                sent_unix_ms=now_ms,
                records=(sample,),
            )
            sent.append(await feed.raw_soon(topics.LIVE, node, codec.encode(envelope), now_ms))
        await asyncio.sleep(1 / PER_NODE_AND_SECOND)
    await asyncio.gather(*sent)


@pytest.mark.parametrize("run", range(RUNS))
async def test_killing_a_worker_loses_nothing(kafka, tmp_path, run):
    """BR-93: two workers, one killed under load: every sample counted once, lag back to 0."""
    boot, cluster = kafka.bootstrap, f"k{uuid.uuid4().hex[:8]}"
    names = [f"edge-{n:02d}" for n in range(NODES)]
    workers = [
        Worker(tmp_path, bootstrap=boot, instance=cluster, number=n, flush_ms=1_000) for n in (1, 2)
    ]
    dice = random.Random(run)
    with workers[0], workers[1]:
        async with Feeder(boot, cluster) as feed:
            for node in names:  # a sign of life: what follows is stamped long ago
                birth = Status(ts_unix_ms=unix_ms(), state="birth", agent_version="0")
                await feed.send("status", node, [birth])
            await asyncio.sleep(2)
            loading = asyncio.ensure_future(load(feed, names, SECONDS))
            await asyncio.sleep(SECONDS / 3 + dice.uniform(0, 2))
            victim, survivor = dice.sample(workers, 2)
            await asyncio.to_thread(victim.kill)
            await loading
            sent = dict(feed.samples)

        async def counted():
            found = await asyncio.to_thread(
                kafka_reader.decoded, boot, topics.AGGREGATES, Aggregate
            )
            ours = kafka_reader.highest(a for a in found if a.cluster == cluster)
            sums = dict.fromkeys(names, 0)
            for one in ours:
                sums[one.node] += one.samples
            return sums

        for _ in range(60):
            if await counted() == sent:
                break
            await asyncio.sleep(1)
        assert await counted() == sent
        await until(
            lambda: (
                {node: row["intake"]["received"] for node, row in survivor.nodes(cluster).items()}
                == sent
            ),
            60,
        )
        assert {row["intake"]["missing"] for row in survivor.nodes(cluster).values()} == {0}
        for _ in range(30):
            lag = await committed_lag(boot, cluster)
            ours = {p.topic: n for p, n in lag.items() if p.topic == topics.LIVE}
            if sum(n for p, n in lag.items() if p.topic == topics.LIVE) == 0:
                break
            await asyncio.sleep(1)
        assert ours
        assert sum(n for p, n in lag.items() if p.topic == topics.LIVE) == 0
        await asyncio.to_thread(victim.start)
        assert await counted() == sent
        assert survivor.stop() == 0
        assert victim.stop() == 0
