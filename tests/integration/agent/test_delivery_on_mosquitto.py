"""The agent as a process, on a real Mosquitto."""

import sqlite3
import subprocess
import sys
import urllib.request

import pytest

from ctl import ports
from support import agents
from wire import sample, topics

pytestmark = pytest.mark.integration


def rows(agent) -> set[int]:
    file = next((agent.folder / "spool").glob("*/spool.db"), None)
    if file is None:
        return set()
    db = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        return {seq for (seq,) in db.execute("SELECT seq FROM records")}
    except sqlite3.OperationalError:  # the agent is just making it
        return set()
    finally:
        db.close()


def backlog(cloud) -> list[sample.Record]:
    return [record for heard in cloud.of("backlog") for record in heard.envelope.records]


def test_live_records_arrive_as_the_contract_says(mosquitto, tmp_path):
    """Topic, QoS 1, user properties, id: each tick one live message of one sample."""
    with (
        agents.cloud(mosquitto.port) as cloud,
        agents.agent(tmp_path, mosquitto.port, node="edge-01", tick_ms=200),
    ):
        agents.until(lambda: len(cloud.of("live")) >= 5)
        live = cloud.of("live")

    assert {heard.topic for heard in live} == {"windvane/v1/demo/edge-01/live"}
    assert {heard.qos for heard in live} == {1}
    for heard in live:
        assert heard.properties == {
            "id": topics.event_id(heard.envelope),
            "content-type": "application/json",
        }
        assert len(heard.envelope.records[0].gpus) == 2
        assert not heard.retain
    first = live[0].seqs[0]  # 2 when the first tick came before the link
    assert first <= 2
    assert [heard.seqs[0] for heard in live] == list(range(first, first + len(live)))
    intervals = [heard.envelope.records[0].interval_ms for heard in live[1:]]
    assert all(100 <= interval <= 400 for interval in intervals)


def test_rows_stay_until_they_are_confirmed_and_are_sent_again(mosquitto, tmp_path):
    """A PUBACK deletes nothing (BR-60); after the timeout the rows come again; then they go."""
    with (
        agents.cloud(mosquitto.port, confirms=False) as cloud,
        agents.agent(tmp_path, mosquitto.port, node="edge-01", tick_ms=200) as agent,
    ):
        agents.until(lambda: len(cloud.of("live")) >= 10)
        assert rows(agent) >= set(range(1, 10))
        first = cloud.of("live")[0].envelope.records[0]
        agents.until(lambda: first in backlog(cloud))

        cloud.confirms = True
        cloud.confirm(cloud.of("live")[0].envelope, sorted(cloud.seqs))
        agents.until(lambda: len(rows(agent)) <= 3)


def test_a_confirmation_that_is_none_is_counted_and_the_next_counts(mosquitto, tmp_path):
    """BR-67: bad UTF-8, bad JSON, nothing, another epoch: counted; the valid one is done."""
    port = ports.free()
    with (
        agents.cloud(mosquitto.port, confirms=False) as cloud,
        agents.agent(
            tmp_path, mosquitto.port, node="edge-01", tick_ms=200, metrics_port=port
        ) as agent,
    ):
        agents.until(lambda: len(cloud.of("live")) >= 3)
        topic = "windvane/v1/demo/edge-01/confirmed"
        for nonsense in (
            b"\xff\xfe",
            b"{nonsense",
            b"",
            b'{"v":1,"epoch":"0123456789abcdef","ranges":[[1,9]]}',
        ):
            cloud.say(topic, nonsense)
        cloud.confirm(cloud.of("live")[0].envelope, [1, 2])
        agents.until(lambda: not rows(agent) & {1, 2})
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
        kept = rows(agent)

    labels = '{cluster="demo",node="edge-01"}'
    assert f"windvane_agent_confirmations_malformed_total{labels} 3.0" in page
    assert f"windvane_agent_confirmations_foreign_total{labels} 1.0" in page
    assert "windvane_gpu_utilization_ratio" in page
    assert 3 in kept


def test_nothing_is_lost_while_the_broker_is_dead(mosquitto, tmp_path):
    """Broker killed for some seconds: everything arrives, fresh data first, no seq missing."""
    with (
        agents.cloud(mosquitto.port) as cloud,
        agents.agent(tmp_path, mosquitto.port, node="edge-01", tick_ms=100) as agent,
    ):
        agents.until(lambda: len(cloud.of("live")) >= 5)
        mosquitto.kill()
        count_before = len(rows(agent))
        agents.until(lambda: len(rows(agent)) >= count_before + 40)
        heard_before = len(cloud.heard)
        mosquitto.start()
        agents.until(lambda: cloud.of("backlog"))
        agents.until(lambda: len(rows(agent)) <= 5)
        last = max(cloud.seqs)
        agents.until(lambda: cloud.seqs >= set(range(1, last + 1)))
        back = [heard for heard in cloud.heard[heard_before:] if heard.lane != "status"]

    assert cloud.seqs >= set(range(1, last + 1))
    first_live = next(heard for heard in back if heard.lane == "live")
    backlog = [seq for heard in back if heard.lane == "backlog" for seq in heard.seqs]
    assert back.index(first_live) <= 1 + len(cloud.of("backlog"))
    assert min(backlog) < first_live.seqs[0]


def test_a_killed_agent_goes_on_where_it_was(mosquitto, tmp_path):
    """kill -9, five times: same epoch, no hole in the seqs, every start succeeds (BR-49)."""
    with (
        agents.cloud(mosquitto.port) as cloud,
        agents.agent(tmp_path, mosquitto.port, node="edge-01", tick_ms=50) as agent,
    ):
        for _ in range(5):
            seen = len(cloud.of("live"))
            agents.until(lambda seen=seen: len(cloud.of("live")) >= seen + 7)
            agent.kill()
            agent.start()
        agents.until(lambda: len(rows(agent)) <= 5)
        agents.until(lambda: cloud.seqs >= set(range(1, max(cloud.seqs) + 1)))

    assert len({heard.envelope.epoch for heard in cloud.heard}) == 1
    ids = {}
    for heard in cloud.heard:
        for record in heard.envelope.records:
            if not isinstance(record, sample.Status):
                assert ids.setdefault(record.seq, record) == record


def test_samples_taken_without_a_broker_survive_a_kill(mosquitto, tmp_path):
    """BR-60: broker down, samples taken, kill -9, restart, broker up: all arrive."""
    with agents.cloud(mosquitto.port) as cloud:
        mosquitto.kill()
        with agents.agent(tmp_path, mosquitto.port, node="edge-01", tick_ms=50) as agent:
            agents.until(lambda: len(rows(agent)) >= 100)
            agent.kill()
            taken = rows(agent)
            agent.start()
            mosquitto.start()
            agents.until(lambda: cloud.seqs >= taken, 30)


def test_birth_and_death_are_retained(mosquitto, tmp_path):
    """Birth at connect; killed: the Will; stopped: a death with its reason, exit 0 in 5 s."""
    with (
        agents.cloud(mosquitto.port) as cloud,
        agents.agent(tmp_path, mosquitto.port, node="edge-01", tick_ms=200) as agent,
    ):
        agents.until(lambda: len(cloud.of("live")) >= 2)
        agent.kill()
        agents.until(lambda: cloud.of("status")[-1].envelope.records[0].state == "death")
        killed = cloud.of("status")[-1].envelope.records[0]
        births = [heard.envelope.records[0] for heard in cloud.of("status")[:-1]]
        agent.start()
        agents.until(lambda: cloud.of("status")[-1].envelope.records[0].state == "birth")
        agents.until(lambda: len(cloud.of("live")) >= 4)
        assert agent.stop() == 0
        agents.until(lambda: cloud.of("status")[-1].envelope.records[0].state == "death")
        stopped = cloud.of("status")[-1].envelope.records[0]

    assert births[-1].sources["simulated"].startswith("yes")
    assert [gpu.vendor for gpu in births[-1].gpus] == ["simulated", "simulated"]
    assert killed.reason == "connection lost"
    assert stopped.reason == "shutdown"


def test_two_agents_on_one_spool(mosquitto, tmp_path):
    """BR-54: the second says who holds the spool and exits 1; the first goes on."""
    with (
        agents.cloud(mosquitto.port) as cloud,
        agents.agent(tmp_path, mosquitto.port, node="edge-01", tick_ms=200) as agent,
    ):
        agents.until(lambda: len(cloud.of("live")) >= 2)
        second = subprocess.run(
            [sys.executable, "-m", "edge_agent", "--config", str(agent.config)],
            cwd=agents.ROOT,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        seen = len(cloud.of("live"))
        agents.until(lambda: len(cloud.of("live")) >= seen + 2)

        assert second.returncode == 1
        assert f"in use by process {agent.process.pid}" in second.stderr


def test_two_agents_with_one_name_do_not_fight(mosquitto, tmp_path):
    """BR-56: same node, two spools: each takeover waits longer although each CONNACK is good."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    with (
        agents.agent(folders[0], mosquitto.port, node="edge-01", tick_ms=200) as first,
        agents.agent(folders[1], mosquitto.port, node="edge-01", tick_ms=200) as second,
    ):
        agents.until(lambda: "in use twice" in first.log.read_text() + second.log.read_text(), 30)
        lines = (first.log.read_text() + second.log.read_text()).splitlines()
        waits = [int(line.rsplit("=", 1)[1]) for line in lines if "link-down" in line]

    assert max(waits) > 2 * min(waits)
    assert any("windvane-agent-demo-edge-01" in line for line in lines)


def test_an_xid_arrives_as_event_and_the_gpu_is_lost(mosquitto, tmp_path):
    """BR-21: an XID 79 on request: the event at once on its lane, GPU lost, the other goes on."""
    with (
        agents.cloud(mosquitto.port) as cloud,
        agents.agent(tmp_path, mosquitto.port, node="edge-01", tick_ms=200),
    ):
        agents.until(lambda: len(cloud.of("live")) >= 2)
        (tmp_path / "control.jsonl").write_text(
            '{"node":"edge-01","fault":"xid","xid":79,"gpu":1,"duration_s":1}\n'
        )
        agents.until(
            lambda: (
                {record.event for heard in cloud.of("events") for record in heard.envelope.records}
                >= {"xid", "gpu-lost", "gpu-back"}
            )
        )
        states = [
            [gpu.state for gpu in heard.envelope.records[0].gpus] for heard in cloud.of("live")
        ]

    assert ["ok", "lost"] in states
    assert states[0] == ["ok", "ok"]
    assert sum(len(heard.seqs) for heard in cloud.of("events")) == 3


def test_a_source_that_hangs_is_told_and_costs_nothing_else(mosquitto, tmp_path):
    """BR-23: read() hangs: source-failed once within two ticks, the link lives, then it is back."""
    with (
        agents.cloud(mosquitto.port) as cloud,
        agents.agent(tmp_path, mosquitto.port, node="edge-01", tick_ms=200),
    ):
        agents.until(lambda: len(cloud.of("live")) >= 2)
        (tmp_path / "control.jsonl").write_text(
            '{"node":"edge-01","fault":"hang","duration_s":2}\n'
        )
        agents.until(lambda: len(cloud.of("events")) >= 2)
        events = [r.event for heard in cloud.of("events") for r in heard.envelope.records]

    assert events == ["source-failed", "source-back"]
    hung = [heard.envelope.records[0].sources.get("simulated") for heard in cloud.of("status")]
    assert "hung" in hung
