"""Starting and ending: wrong topics, a stuck recovery, signals, ports."""

import asyncio
import shutil
import socket
import time
import uuid

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from ctl import ports
from support.processor_runner import Feeder, Worker, unix_ms, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

CHANGELOGS = ("node-state", "windows", "pool-state")


@pytest.fixture
def cluster():
    return f"s{uuid.uuid4().hex[:8]}"


def test_topics_of_the_wrong_shape_are_refused_with_the_command(kafka, tmp_path, cluster):
    """BR-94: one clear line that names both counts, and what to run; exit 2, nothing started."""
    worker = Worker(tmp_path, bootstrap=kafka.bootstrap, instance=cluster, partitions=9)
    worker.start(wait=False)
    worker.child._process.wait(30)

    assert worker.child.returncode == 2
    assert "windvane.live.v1 has 4 partitions, must have 9" in worker.child.tail()
    command = f"windvane topics create --bootstrap {kafka.bootstrap} --partitions 9"
    assert f"run: {command}" in worker.child.tail()


@pytest.mark.parametrize("after_s", [0.0, 0.2, 3.0])
def test_sigterm_ends_it_cleanly_and_frees_the_port(kafka, tmp_path, cluster, after_s):
    """Exit 0, also in the moment of becoming ready, and the port is free."""
    worker = Worker(tmp_path, bootstrap=kafka.bootstrap, instance=cluster)
    with worker:
        time.sleep(after_s)
        assert worker.child.stop(timeout_s=10.0) == 0
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", worker.port))


def test_sigterm_ends_it_when_kafka_has_died(own_kafka, tmp_path, cluster):
    """Faust waits for its broker for ever; being told to stop does not."""
    worker = Worker(tmp_path, bootstrap=own_kafka.bootstrap, instance=cluster)
    with worker:
        time.sleep(1)
        own_kafka.kill()
        time.sleep(1)
        assert worker.child.stop(timeout_s=10.0) == 0


def test_sigterm_ends_it_while_kafka_is_away(tmp_path, cluster):
    """It waits for Kafka, and can be told not to."""
    worker = Worker(tmp_path, bootstrap=f"127.0.0.1:{ports.free()}", instance=cluster)
    worker.start(wait=False)
    deadline = 100
    while "Kafka does not answer" not in worker.child.tail() and deadline:
        deadline -= 1
        worker.child.must_run()
        time.sleep(0.1)

    assert worker.child.stop(timeout_s=6.0) == 0


@pytest.mark.parametrize("disk", ["kept", "lost"])
async def test_an_emptied_changelog_does_not_hold_the_start_up(kafka, tmp_path, cluster, disk):
    """BR-86: retention took the changelog; ready in time, and new records are judged."""
    boot = kafka.bootstrap
    worker = Worker(tmp_path, bootstrap=boot, instance=cluster, flush_ms=500)
    async with Feeder(boot, cluster) as feed:
        await asyncio.to_thread(worker.start)
        for _ in range(3):
            for n in range(8):
                await feed.send("live", f"edge-{n:02d}", [feed.sample(f"edge-{n:02d}", unix_ms())])
        await until(lambda: len(worker.nodes(cluster)) == 8)
        await asyncio.sleep(2)
        assert await asyncio.to_thread(worker.stop) == 0
        await empty(boot, [f"{cluster}-{name}-changelog" for name in CHANGELOGS])
        if disk == "lost":
            shutil.rmtree(tmp_path / "worker-1" / "data")
        await asyncio.to_thread(worker.start)
        await feed.send("live", "edge-00", [feed.sample("edge-00", unix_ms())])
        want = 4 if disk == "kept" else 1

        def intake():
            return worker.nodes(cluster)["edge-00"]["intake"]["received"]

        await until(lambda: intake() == want, 20)
        assert await asyncio.to_thread(worker.stop) == 0


async def empty(bootstrap, names):
    """Delete all records, as retention would."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.alter_configs(
            [
                ConfigResource(ConfigResourceType.TOPIC, name, {"cleanup.policy": "delete"})
                for name in names
            ]
        )
        places = [TopicPartition(name, p) for name in names for p in range(4)]
        await admin.delete_records({place: RecordsToDelete(before_offset=-1) for place in places})
    finally:
        await admin.close()
