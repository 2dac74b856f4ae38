"""Real bridges between a real Mosquitto and a real Kafka: what arrives, and what is said back."""

import time
from pathlib import Path

import pytest

from ctl import servers
from support import bridge_runner, kafka_reader
from wire import codec, sample, topics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


def of_cluster(bootstrap: str, topic: str, cluster: str) -> list:
    return [r for r in kafka_reader.read(bootstrap, topic) if cluster.encode() in (r.key or b"")]


def test_messages_and_confirmations(
    tmp_path: Path, mosquitto: servers.Mosquitto, kafka: servers.Kafka
) -> None:
    """Each lane reaches its topic with key, headers and arrival time, in order; what is
    confirmed to a node is exactly what Kafka holds."""
    cluster = "flow"
    with (
        bridge_runner.Bridge(tmp_path, mqtt_port=mosquitto.port, bootstrap=kafka.bootstrap),
        bridge_runner.Nodes(mosquitto.port, cluster) as nodes,
    ):
        before_ms = time.time_ns() // 1_000_000
        for lane in ("live", "backlog", "events"):
            for node in ("a", "b"):
                nodes.settle(nodes.samples(node, 40, lane=lane))
        birth = sample.Status(ts_unix_ms=before_ms, state="birth", agent_version="t")
        said = sample.Envelope(
            v=1,
            cluster=cluster,
            node="a",
            epoch=bridge_runner.EPOCH,
            sent_unix_ms=before_ms,
            records=(birth,),
        )
        nodes.settle([nodes.say("a", "status", codec.encode(said))])
        bridge_runner.until(lambda: all(len(nodes.confirmed_seqs(n)) >= 120 for n in ("a", "b")))
        after_ms = time.time_ns() // 1_000_000

    held: dict[str, set[int]] = {"a": set(), "b": set()}
    for lane in ("live", "backlog", "events"):
        seqs: dict[str, list[int]] = {"a": [], "b": []}
        for record in of_cluster(kafka.bootstrap, topics.KAFKA_TOPIC_OF_LANE[lane], cluster):
            node = record.key.decode().split("/")[1]
            seqs[node] += bridge_runner.seqs_of(record.value)
            assert before_ms <= record.timestamp <= after_ms
            assert dict(record.headers)["ce_type"] == f"io.windvane.{lane}.v1".encode()
            assert dict(record.headers)["ce_id"].startswith(record.key)
        assert all(found == sorted(set(found)) and len(found) == 40 for found in seqs.values())
        for node, found in seqs.items():
            held[node] |= set(found)
    assert {node: nodes.confirmed_seqs(node) for node in held} == held
    assert len(of_cluster(kafka.bootstrap, topics.STATUS, cluster)) == 1


def test_bad_payloads_do_not_stop_the_flow(
    tmp_path: Path, mosquitto: servers.Mosquitto, kafka: servers.Kafka
) -> None:
    """BR-67, BR-77: 25 poison messages, more than the receive maximum of 20, are set aside and
    acknowledged; the 5 good ones behind them pass."""
    cluster = "poison"
    poison = [b"", b"\xff\xfe", b"{", b'{"v":9}', b'{"v":1,"records":NaN}'] * 5
    with (
        bridge_runner.Bridge(
            tmp_path,
            mqtt_port=mosquitto.port,
            bootstrap=kafka.bootstrap,
            mqtt={"receive_maximum": 20},
        ) as bridge,
        bridge_runner.Nodes(mosquitto.port, cluster) as nodes,
    ):
        nodes.settle([nodes.say("a", "live", payload) for payload in poison])
        nodes.settle(nodes.samples("a", 5))
        bridge_runner.until(lambda: nodes.confirmed_seqs("a") == {1, 2, 3, 4, 5})
        assert bridge.answers("/readyz")

    letters = of_cluster(kafka.bootstrap, topics.DEAD_LETTERS, cluster)
    assert len(letters) == 25
    assert sorted(letter.value for letter in letters) == sorted(poison)
    reasons = {dict(letter.headers)["windvane_reason"] for letter in letters}
    assert reasons == {b"no-value", b"malformed", b"unknown-version"}
    assert len(of_cluster(kafka.bootstrap, topics.LIVE, cluster)) == 5


def test_oversize(tmp_path: Path, mosquitto: servers.Mosquitto, kafka: servers.Kafka) -> None:
    """BR-82, both runs: above our limit and above the broker's, a large record becomes a dead
    letter with head and hash, is confirmed, and the small ones around it arrive in order."""
    for cluster, limit, large_bytes in (
        ("big-ours", 100_000, 120_000),
        ("big-kafka", 3_000_000, 1_020_000),
    ):
        with (
            bridge_runner.Bridge(
                tmp_path,
                name=cluster,
                mqtt_port=mosquitto.port,
                bootstrap=kafka.bootstrap,
                kafka={"message_bytes_max": limit},
                mqtt={"group": cluster},
            ),
            bridge_runner.Nodes(mosquitto.port, cluster) as nodes,
        ):
            small = bridge_runner.envelope(cluster, "a", [1], detail="x" * 1000)
            large_seqs = range(2, 2 + large_bytes // 1110)
            large = bridge_runner.envelope(cluster, "a", large_seqs, detail="y" * 1024)
            last = large_seqs[-1] + 1
            nodes.settle([nodes.say("a", "live", small), nodes.say("a", "live", large)])
            nodes.settle(
                [nodes.say("a", "live", bridge_runner.envelope(cluster, "a", [last, last + 1]))]
            )
            bridge_runner.until(lambda seqs=last + 1: len(nodes.confirmed_seqs("a")) == seqs)

        records = of_cluster(kafka.bootstrap, topics.LIVE, cluster)
        held = list(dict.fromkeys(s for r in records for s in bridge_runner.seqs_of(r.value)))
        assert held == [1, last, last + 1]
        (letter,) = of_cluster(kafka.bootstrap, topics.DEAD_LETTERS, cluster)
        assert letter.value == large[:4096]
        assert dict(letter.headers)["windvane_reason"] == b"oversize"
        assert dict(letter.headers)["windvane_size_bytes"] == str(len(large)).encode()


def test_two_replicas_share(
    tmp_path: Path, mosquitto: servers.Mosquitto, kafka: servers.Kafka
) -> None:
    """Two bridges of one group share the messages: both forward, none is forwarded twice."""
    cluster = "pair"
    bridges = [
        bridge_runner.Bridge(
            tmp_path, name=f"pair-{n}", mqtt_port=mosquitto.port, bootstrap=kafka.bootstrap
        )
        for n in (1, 2)
    ]
    with bridges[0], bridges[1], bridge_runner.Nodes(mosquitto.port, cluster) as nodes:
        nodes.settle(nodes.samples("a", 200))
        bridge_runner.until(lambda: len(nodes.confirmed_seqs("a")) == 200)
        shares = [bridge_runner.counter(b.port, "messages_forwarded_total") for b in bridges]

    assert sum(shares) == 200
    assert min(shares) > 0
    assert len(of_cluster(kafka.bootstrap, topics.LIVE, cluster)) == 200


def test_wrong_topics_and_no_kafka(
    tmp_path: Path, mosquitto: servers.Mosquitto, kafka: servers.Kafka
) -> None:
    """BR-94: another partition count than Kafka has ends with code 2, both counts and the
    command; a Kafka that does not answer ends with code 1."""
    wrong = bridge_runner.Bridge(
        tmp_path, name="wrong", mqtt_port=mosquitto.port, bootstrap=kafka.bootstrap, partitions=7
    )
    away = bridge_runner.Bridge(
        tmp_path,
        name="away",
        mqtt_port=mosquitto.port,
        bootstrap="127.0.0.1:1",
        kafka={"start_timeout_ms": 1000},
    )
    for bridge in (wrong, away):
        bridge.child.start()
    bridge_runner.until(lambda: wrong.child.returncode is not None)
    bridge_runner.until(lambda: away.child.returncode is not None)

    assert wrong.child.returncode == 2
    assert "has 4 partitions, must have 7" in wrong.log()
    assert f"windvane topics create --bootstrap {kafka.bootstrap} --partitions 7" in wrong.log()
    assert away.child.returncode == 1
    assert "127.0.0.1:1 did not answer" in away.log()


def test_ends_cleanly(tmp_path: Path, mosquitto: servers.Mosquitto, kafka: servers.Kafka) -> None:
    """SIGTERM ends it with code 0 within 5 s; what it held is in Kafka and acknowledged."""
    with bridge_runner.Nodes(mosquitto.port, "clean") as nodes:
        bridge = bridge_runner.Bridge(tmp_path, mqtt_port=mosquitto.port, bootstrap=kafka.bootstrap)
        bridge.start()
        infos = nodes.samples("a", 100)
        started_s = time.monotonic()
        code = bridge.stop()
        took_s = time.monotonic() - started_s
        nodes.settle(infos)
        assert code == 0
        assert took_s < 5
        assert "left_to_the_broker=0" in bridge.log()
        with bridge:
            bridge_runner.until(lambda: len(nodes.confirmed_seqs("a")) == 100)
