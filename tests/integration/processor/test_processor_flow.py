"""The processor on real Kafka: envelopes in, verdicts, aggregates and decisions out."""

import asyncio
import uuid

import pytest

from support import kafka_reader
from support.kube_stub import KubeStub
from support.processor_runner import Feeder, Worker, unix_ms, until
from wire import topics
from wire.aggregate import Aggregate
from wire.verdict import Decision, Verdict

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture
def cluster():
    return f"c{uuid.uuid4().hex[:8]}"


async def of_cluster(bootstrap, topic, shape, cluster):
    found = await asyncio.to_thread(kafka_reader.decoded, bootstrap, topic, shape)
    return [one for one in found if one.cluster == cluster]


async def test_counts_add_up_exactly(kafka, tmp_path, cluster):
    """Samples sent = samples in the final aggregates, with repeats, disorder and a backlog."""
    boot = kafka.bootstrap
    names = [f"edge-{n:02d}" for n in range(1, 7)]
    with Worker(tmp_path, bootstrap=boot, instance=cluster) as worker:
        async with Feeder(boot, cluster) as feed:
            start_ms = unix_ms() - 60_000
            for node in names:
                await feed.birth(node)
            sent = []
            for tick in range(40):
                for node in names:
                    lane = "backlog" if 10 <= tick < 25 and node == names[0] else "live"
                    sample = feed.sample(node, start_ms + tick * 1000)
                    if lane == "live":
                        sent.append((node, await feed.send(lane, node, [sample])))
                    else:
                        sent.append((node, sample))
            late = [sample for _, sample in sent if not isinstance(sample, bytes)]
            await asyncio.sleep(1)
            await feed.send("backlog", names[0], late[8:])
            await feed.send("backlog", names[0], late[:8])
            await feed.send("backlog", names[0], late[:8])
            for node, value in [one for one in sent if isinstance(one[1], bytes)][::3]:
                await feed.raw(topics.LIVE, node, value)

            async def counted():
                made = await of_cluster(boot, topics.AGGREGATES, Aggregate, cluster)
                return sum(a.samples for a in kafka_reader.highest(made))

            total = sum(feed.samples.values())
            for _ in range(60):
                if await counted() >= total:
                    break
                await asyncio.sleep(1)
            await asyncio.sleep(3)

            assert await counted() == total == 240
            await until(lambda: worker.nodes(cluster)[names[0]]["intake"]["received"] == 40)
            rows = worker.nodes(cluster)
            assert {row["intake"]["missing"] for row in rows.values()} == {0}
            assert sum(row["intake"]["duplicates"] for row in rows.values()) > 0
            made = await of_cluster(boot, topics.AGGREGATES, Aggregate, cluster)
            final = kafka_reader.highest(made)
            assert kafka_reader.readings(final) == 2 * total


async def test_an_xid_becomes_a_decision_at_once(kafka, tmp_path, cluster):
    """The event's verdict says failed, the decision carries the taint and the patch."""
    boot = kafka.bootstrap
    with Worker(tmp_path, bootstrap=boot, instance=cluster) as worker:
        async with Feeder(boot, cluster) as feed:
            names = [f"edge-{n:02d}" for n in range(1, 6)]
            for _ in range(3):
                for node in names:
                    await feed.send("live", node, [feed.sample(node, unix_ms())])
                await asyncio.sleep(1)
            await until(lambda: len(worker.nodes(cluster)) == 5)
            happened_ms = unix_ms()
            await feed.send("events", "edge-02", [feed.xid("edge-02", happened_ms)])

            await until(lambda: worker.nodes(cluster)["edge-02"]["taints"])
            row = worker.nodes(cluster)["edge-02"]
            decisions = await of_cluster(boot, topics.DECISIONS, Decision, cluster)
            tainted = [d for d in decisions if d.taints]

    assert row["health"] == "failed"
    assert row["last_outcome"] == "dry-run"
    assert tainted[0].node == "edge-02"
    assert tainted[0].patch["spec"]["taints"]
    assert tainted[0].answered_unix_ms - happened_ms < 1000


async def test_bad_records_go_to_the_dead_letters_and_the_rest_goes_on(kafka, tmp_path, cluster):
    """BR-91: valid, undecodable, wrong version, tombstone, foreign key, valid."""
    boot = kafka.bootstrap
    with Worker(tmp_path, bootstrap=boot, instance=cluster) as worker:
        async with Feeder(boot, cluster) as feed:
            value = await feed.send("live", "edge-01", [feed.sample("edge-01", unix_ms())])
            await feed.raw(topics.LIVE, "edge-01", b"\xff\x00 not json")
            await feed.raw(topics.LIVE, "edge-01", value.replace(b'"v":1', b'"v":9'))
            await feed.raw(topics.LIVE, "edge-01", None)
            await feed.raw(topics.LIVE, "edge-02", value)
            await feed.send("live", "edge-01", [feed.sample("edge-01", unix_ms())])

            await until(lambda: worker.nodes(cluster).get("edge-01"))

            def dead():
                records = kafka_reader.read(boot, topics.DEAD_LETTERS)
                ours = [r for r in records if r.key and r.key.startswith(cluster.encode())]
                return [dict(r.headers)["windvane_reason"] for r in ours]

            await until(lambda: len(dead()) == 4)
            reasons = await asyncio.to_thread(dead)
            await until(lambda: worker.get("/healthz")[0] == 200)
            await asyncio.sleep(11)  # the judge repeats its verdict
            intake = worker.nodes(cluster)["edge-01"]["intake"]

    assert sorted(reasons) == [b"foreign-node", b"malformed", b"no-value", b"unknown-version"]
    assert intake["received"] == 2


async def test_a_silent_node_shows_without_any_traffic(kafka, tmp_path, cluster):
    """BR-88: one node, three samples, then nothing at all: window and silence by the clock."""
    boot = kafka.bootstrap
    with Worker(tmp_path, bootstrap=boot, instance=cluster) as worker:
        async with Feeder(boot, cluster) as feed:
            for _ in range(3):
                await feed.send("live", "edge-01", [feed.sample("edge-01", unix_ms())])
                await asyncio.sleep(1)

            await until(lambda: worker.nodes(cluster).get("edge-01"))
            await until(
                lambda: worker.nodes(cluster)["edge-01"]["telemetry"] in {"stale", "lost"}, 20
            )
            for _ in range(30):
                made = await of_cluster(boot, topics.AGGREGATES, Aggregate, cluster)
                if sum(a.samples for a in kafka_reader.highest(made)) == 3:
                    break
                await asyncio.sleep(1)
            else:
                pytest.fail("the window did not close by itself")


async def test_any_worker_answers_for_the_whole_fleet(kafka, tmp_path, cluster):
    """Two workers share the partitions; each page has every node."""
    boot = kafka.bootstrap
    one = Worker(tmp_path, bootstrap=boot, instance=cluster, number=1)
    two = Worker(tmp_path, bootstrap=boot, instance=cluster, number=2)
    names = {f"edge-{n:02d}" for n in range(1, 13)}
    with one, two:
        async with Feeder(boot, cluster) as feed:
            for node in names:
                await feed.send("live", node, [feed.sample(node, unix_ms())])

            await until(lambda: one.nodes(cluster).keys() == names)
            await until(lambda: two.nodes(cluster).keys() == names)
            assert (
                one.get("/api/nodes/edge-07?cluster=" + cluster)[1]["verdict"]["node"] == "edge-07"
            )
            assert two.get("/api/nodes/nobody")[0] == 404
    verdicts = await of_cluster(boot, topics.VERDICTS, Verdict, cluster)
    assert {v.node for v in verdicts} == names


async def test_a_restart_changes_nothing_on_the_nodes(kafka, tmp_path, cluster):
    """BR-110: labels and taints stand, and the restarted processor writes nothing."""
    boot = kafka.bootstrap
    with KubeStub() as stub:
        names = [f"edge-{n:02d}" for n in range(1, 6)]
        for node in names:
            stub.put(node)
        kube = (
            f'[kube]\nmode = "kubeconfig"\nkubeconfig = "{stub.kubeconfig(tmp_path)}"\n'
            f'dry_run = false\ncluster = "{cluster}"\n'
        )
        worker = Worker(tmp_path, bootstrap=boot, instance=cluster, extra=kube)
        async with Feeder(boot, cluster) as feed:

            async def ticks(count):
                for _ in range(count):
                    for node in names:
                        await feed.send("live", node, [feed.sample(node, unix_ms())])
                    await asyncio.sleep(1)

            with worker:
                await ticks(4)
                await feed.send("events", "edge-03", [feed.xid("edge-03", unix_ms())])
                await until(lambda: stub.taints("edge-03"))
                await ticks(12)
                before = {n: (stub.taints(n), stub.nodes[n]["metadata"]["labels"]) for n in names}
                writes = len(stub.writes())
                await asyncio.to_thread(worker.kill)
                await asyncio.to_thread(worker.start)
                await ticks(12)
                after = {n: (stub.taints(n), stub.nodes[n]["metadata"]["labels"]) for n in names}

                assert [request.body for request in stub.writes()[writes:]] == []
                assert after == before
                assert await asyncio.to_thread(worker.stop) == 0
