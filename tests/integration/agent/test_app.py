"""Several agents in one process, on a real Mosquitto."""

import asyncio
import contextlib
import time

import pytest

from edge_agent import app, config
from edge_agent.errors import SpoolInUseError
from edge_agent.sources import catalog
from support import agents

pytestmark = pytest.mark.integration


def settings(folder, port: int, count: int, **groups) -> config.Settings:
    table = {
        "cluster": "demo",
        "tick_ms": 100,
        "spool_dir": str(folder / "spools"),
        "fleet": {"count": count},
        "mqtt": {"port": port, "backoff_min_ms": 50, "backoff_max_ms": 500},
        "exporter": {"port": 0},
        "source": {"kind": "simulated"},
    }
    return config.read({**table, **groups}, {})


@contextlib.asynccontextmanager
async def running(found: config.Settings):
    stopping = asyncio.Event()
    task = asyncio.ensure_future(app.run(found, stopping))
    try:
        yield task
    finally:
        stopping.set()
        await asyncio.wait_for(task, 5)


def until(happened, timeout_s: float = 15.0):
    return asyncio.to_thread(agents.until, happened, timeout_s)


def nodes_of(cloud) -> set[str]:
    return {heard.envelope.node for heard in cloud.of("live")}


async def test_a_fleet_shares_a_process(mosquitto, tmp_path):
    """Twelve agents: twelve nodes, each with its own epoch and seqs from 1, all say goodbye."""
    with agents.cloud(mosquitto.port) as cloud:
        async with running(settings(tmp_path, mosquitto.port, 12)):
            await until(lambda: len(nodes_of(cloud)) == 12 and len(cloud.of("live")) >= 60)
        last = {heard.envelope.node: heard.envelope.records[0] for heard in cloud.of("status")}
        epochs = {(heard.envelope.node, heard.envelope.epoch) for heard in cloud.of("live")}
        await until(lambda: {r.reason for r in states(cloud).values()} == {"shutdown"})

    assert len(last) == len(epochs) == 12


def states(cloud):
    return {heard.envelope.node: heard.envelope.records[0] for heard in cloud.of("status")}


async def test_an_agent_that_dies_is_started_again_and_the_others_go_on(
    mosquitto, tmp_path, monkeypatch, caplog
):
    """A bug kills one agent: told, started anew with the same epoch; its neighbour never stops."""
    reads = [0]

    def dying_read():
        reads[0] += 1
        if reads[0] == 5:
            raise KeyError("a bug")

    monkeypatch.setattr(catalog, "make", make_dying(catalog.make, dying_read))
    with agents.cloud(mosquitto.port) as cloud:
        async with running(settings(tmp_path, mosquitto.port, 2)):
            await until(lambda: "agent-died node=edge-01" in caplog.text)
            at_death = len(cloud.heard)
            await until(
                lambda: sum(h.envelope.node == "edge-01" for h in cloud.heard[at_death:]) >= 8
            )
        first = [h for h in cloud.of("live") if h.envelope.node == "edge-01"]
        second = [h for h in cloud.of("live") if h.envelope.node == "edge-02"]

    assert len({heard.envelope.epoch for heard in first}) == 1
    assert "agent-died node=edge-02" not in caplog.text
    start = second[0].seqs[0]
    assert [h.seqs[0] for h in second] == list(range(start, start + len(second)))


def make_dying(real, dying_read):
    def make(found, place, say):
        sources = real(found, place, say)
        if place.index == 0:
            read = sources[0].read
            sources[0].read = lambda: (dying_read(), read())[1]
        return sources

    return make


async def test_a_spool_that_is_taken_stops_the_start(mosquitto, tmp_path):
    """BR-54: one spool of the fleet in use: nothing starts, and what was opened is let go."""
    one = settings(tmp_path, mosquitto.port, 3)
    async with running(one) as task:
        await asyncio.sleep(0.3)
        with pytest.raises(SpoolInUseError):
            await app.run(settings(tmp_path, mosquitto.port, 4), asyncio.Event())

        assert not task.done()


async def test_fifty_agents_return_spread_over_time(mosquitto, tmp_path):
    """BR-57: the broker comes back: the fleet's connects are spread, all return within the cap."""
    found = settings(
        tmp_path,
        mosquitto.port,
        50,
        tick_ms=1000,
        mqtt={"port": mosquitto.port, "backoff_min_ms": 200, "backoff_max_ms": 2000},
    )
    async with running(found):
        with agents.cloud(mosquitto.port) as cloud:
            await until(lambda: len(nodes_of(cloud)) == 50)
            mosquitto.kill()
            await asyncio.sleep(4)
            mosquitto.start()
            back_unix_ms = time.time_ns() // 1_000_000

            def births():
                heard = [h.envelope for h in cloud.of("status")]
                return {
                    one.node: one.records[0].ts_unix_ms
                    for one in heard
                    if one.records[0].state == "birth" and one.sent_unix_ms >= back_unix_ms
                }

            await until(lambda: len(births()) == 50, 10)

    times_ms = births().values()
    assert max(times_ms) - min(times_ms) > 500


@pytest.mark.parametrize("speed", [6000.0], ids=str)
async def test_the_recorded_trace_arrives_whole(mosquitto, tmp_path, traces, speed):
    """Each of the 157,417 rows of the trace arrives exactly once, in 1,441 samples a node."""
    found = settings(
        tmp_path,
        mosquitto.port,
        12,
        source={"kind": "recorded"},
        mqtt={"port": mosquitto.port, "confirm_timeout_ms": 2000},
        recorded={"file": str(traces / "pod_gpu_duty_cycle_anon.csv.gz"), "speed": speed},
    )
    with agents.cloud(mosquitto.port) as cloud:
        async with running(found):
            await until(lambda: finished(cloud) == 12, 60)
            await until(lambda: len(samples(cloud)) >= 12 * 1441, 30)
        found = samples(cloud)

    assert len(found) == 12 * 1441
    assert sum(len(one.gpus) for one in found.values()) == 157_417


def finished(cloud) -> int:
    return sum(one.sources.get("recorded") == "finished" for one in states(cloud).values())


def samples(cloud):
    return {
        (heard.envelope.node, record.seq): record
        for heard in list(cloud.heard)
        for record in heard.envelope.records
        if heard.lane in ("live", "backlog")
    }
