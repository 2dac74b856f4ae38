"""What a bridge does when Kafka, the broker or itself is killed."""

import time
from pathlib import Path

import pytest

from ctl import servers
from support import bridge_runner, kafka_reader
from wire import topics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


def seqs_in(bootstrap: str, cluster: str, node: str) -> list[int]:
    """Seqs of a node in the order of Kafka, with repeats."""
    key = f"{cluster}/{node}".encode()
    records = [r for r in kafka_reader.read(bootstrap, topics.LIVE) if r.key == key]
    return [seq for r in records for seq in bridge_runner.seqs_of(r.value)]


def test_kafka_killed(
    tmp_path: Path, mosquitto: servers.Mosquitto, own_kafka: servers.Kafka
) -> None:
    """BR-76, BR-79, BR-80: with Kafka dead nothing is acknowledged or confirmed and memory is
    flat; when it is back all is there, first arrivals in order for each node."""
    cluster = "outage"
    names = [f"n{i}" for i in range(4)]
    with (
        bridge_runner.Bridge(
            tmp_path, mqtt_port=mosquitto.port, bootstrap=own_kafka.bootstrap
        ) as bridge,
        bridge_runner.Nodes(mosquitto.port, cluster) as nodes,
    ):
        for name in names:
            nodes.settle(nodes.samples(name, 50))
        bridge_runner.until(lambda: all(len(nodes.confirmed_seqs(n)) == 50 for n in names))
        acked = bridge_runner.counter(bridge.port, "messages_acknowledged_total")
        own_kafka.kill()
        for _ in range(25):
            for name in names:
                nodes.settle(nodes.samples(name, 10))
        memory_kb = bridge.memory_kb()
        for _ in range(50):
            for name in names:
                nodes.settle(nodes.samples(name, 10))
        time.sleep(8)
        assert bridge_runner.counter(bridge.port, "messages_acknowledged_total") == acked
        assert all(len(nodes.confirmed_seqs(n)) == 50 for n in names)
        assert bridge.memory_kb() - memory_kb < 4096
        assert bridge_runner.counter(bridge.port, "messages_open") <= 1000
        bridge_runner.until(lambda: not bridge.answers("/readyz"))
        assert bridge.answers("/healthz")

        own_kafka.start()
        started_s = time.monotonic()
        bridge_runner.until(
            lambda: all(len(nodes.confirmed_seqs(n)) == 800 for n in names), timeout_s=60
        )
        assert time.monotonic() - started_s < 30

    for name in names:
        found = seqs_in(own_kafka.bootstrap, cluster, name)
        assert list(dict.fromkeys(found)) == list(range(1, 801))


def test_bridge_killed(tmp_path: Path, mosquitto: servers.Mosquitto, kafka: servers.Kafka) -> None:
    """BR-70, BR-76: what a killed bridge had not acknowledged is delivered again; none is lost."""
    cluster = "killed"
    bridge = bridge_runner.Bridge(tmp_path, mqtt_port=mosquitto.port, bootstrap=kafka.bootstrap)
    with bridge, bridge_runner.Nodes(mosquitto.port, cluster) as nodes:
        for _ in range(3):
            infos = nodes.samples("a", 300)
            bridge.kill()
            nodes.settle(infos)
            bridge.start()
        bridge_runner.until(lambda: len(nodes.confirmed_seqs("a")) > 0)
        bridge_runner.until(
            lambda: set(seqs_in(kafka.bootstrap, cluster, "a")) == set(range(1, 901)),
            timeout_s=60,
        )


def test_broker_restarted_without_memory(
    tmp_path: Path, servers_or_skip: None, kafka: servers.Kafka
) -> None:
    """BR-68: a broker that forgot us is subscribed to again, and messages flow."""
    cluster = "forgotten"
    with (
        servers.Mosquitto(tmp_path, persistence=False) as broker,
        bridge_runner.Bridge(tmp_path, mqtt_port=broker.port, bootstrap=kafka.bootstrap) as bridge,
    ):
        broker.kill()
        bridge_runner.until(lambda: not bridge.answers("/readyz"))
        broker.start()
        bridge_runner.until(lambda: bridge.answers("/readyz"))
        with bridge_runner.Nodes(broker.port, cluster) as nodes:
            nodes.settle(nodes.samples("a", 20))
            bridge_runner.until(lambda: len(nodes.confirmed_seqs("a")) == 20)
        assert bridge.log().count("session_present=False") == 2


def test_one_client_id_twice(
    tmp_path: Path, mosquitto: servers.Mosquitto, kafka: servers.Kafka
) -> None:
    """BR-56: two bridges with one id throw each other out, ever more slowly, and say so."""
    twins = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        twin = bridge_runner.Bridge(
            folder,
            name="twin",
            mqtt_port=mosquitto.port,
            bootstrap=kafka.bootstrap,
            mqtt={"backoff_min_ms": 200, "backoff_max_ms": 60_000},
        )
        twins.append(twin)
    with twins[0]:
        twins[1].child.start()
        time.sleep(12)
        twins[1].stop()

    downs = [twin.log().count("link-down") for twin in twins]
    assert 1 <= max(downs) <= 8
    assert any("is the session taken over by another client" in twin.log() for twin in twins)
