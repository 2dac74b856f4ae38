"""The by-node shell: what is acknowledged, when, and what a crash leaves behind."""

import asyncio

import prometheus_client as prom
import pytest

from cloud_processor import config, telemetry
from cloud_processor.core import judge, policy
from cloud_processor.streams import engine, nodes
from support import steps
from wire import topics
from wire.codec import encode
from wire.sample import Envelope, Gpu, GpuInventory, Sample, Status

KEY = b"demo/edge-01"
EPOCH = "0123456789abcdef"


class World:
    """One worker's by-node step; `crash` makes a successor on the same tables."""

    def __init__(self):
        self.clock = steps.Clock()
        self.states, self.windows = steps.Table(), steps.Table()
        self.pools = {}
        self.aggregates = []
        self.offset = 0
        self.rise()

    def rise(self):
        self.outlet = steps.Outlet()
        self.outlet.aggregates = self.aggregates
        self.acked = []
        self.step = nodes.NodeStep(
            states=self.states,
            windows=self.windows,
            outlet=self.outlet,
            rules=policy.Policy(),
            pool_of=lambda _cluster, node: self.pools.get(node, "default"),
            telemetry=telemetry.Telemetry(prom.CollectorRegistry()),
            ack=lambda message: self.acked.append(message.offset),
            now_ms=self.clock,
        )
        self.step.own({0}, lambda _key: 0)

    def envelope(self, *seqs, ts_ms=None, node="edge-01"):
        ts_ms = self.clock.now_ms if ts_ms is None else ts_ms
        return encode(
            Envelope(
                v=1,
                cluster="demo",
                node=node,
                epoch=EPOCH,
                sent_unix_ms=self.clock.now_ms,
                records=tuple(
                    Sample(
                        seq=seq,
                        ts_unix_ms=ts_ms,
                        interval_ms=1000,
                        gpus=(Gpu(uuid="GPU-1", utilization_percent=20.0),),
                    )
                    for seq in seqs
                ),
            )
        )

    async def take(self, value, *, topic=topics.LIVE, key=KEY):
        self.offset += 1
        message = steps.message(topic, key, value, offset=self.offset, at_ms=self.clock.now_ms)
        await self.step.take(message)
        return self.offset

    def counted(self):
        best = {}
        for one in self.aggregates:
            start = one.window_start_unix_ms
            best[start] = max(best.get(start, 0), one.samples)
        return sum(best.values())


@pytest.fixture
def world():
    return World()


async def test_bad_records_are_dead_lettered_and_the_rest_goes_on(world):
    """BR-91: undecodable, wrong version, tombstone, foreign key: reason, origin, acknowledged."""
    good = world.envelope(1)
    await world.take(good)
    await world.take(b"\xff not json")
    await world.take(good.replace(b'"v":1', b'"v":2'))
    await world.take(None)
    await world.take(good, key=b"demo/edge-02")
    await world.take(world.envelope(2))
    await world.step.flush()

    reasons = [reason for reason, _, _ in world.outlet.dead]
    assert reasons == ["malformed", "unknown-version", "no-value", "foreign-node"]
    assert world.outlet.dead[0][1] == f"{topics.LIVE}/0/2"
    assert world.acked == [1, 2, 3, 4, 5, 6]
    assert world.outlet.verdicts[-1].intake.received == 1 or world.states


async def test_a_record_the_judge_stumbles_over_does_not_stop_the_others(world, monkeypatch):
    """BR-91: a fault in our own code makes a dead letter, not a dead agent."""
    receive = judge.receive

    def stumble(state, envelope, **given):
        if envelope.records[0].seq == 2:
            raise ZeroDivisionError
        return receive(state, envelope, **given)

    monkeypatch.setattr(judge, "receive", stumble)
    for seq in (1, 2, 3):
        await world.take(world.envelope(seq))

    assert [reason for reason, _, _ in world.outlet.dead] == ["malformed"]


async def test_nothing_is_acknowledged_before_its_state_is_written(world):
    """BR-92: an event counts as done only when the state that holds it is in the table."""
    await world.take(world.envelope(1))
    before = list(world.acked)

    await world.step.flush()

    assert before == []
    assert world.acked == [1]
    assert world.states[KEY]


async def test_a_successor_knows_the_driver_that_a_birth_told(world):
    """The birth comes once, at the connection: a killed worker's successor has it in the table."""
    born = Envelope(
        v=1,
        cluster="demo",
        node="edge-01",
        epoch=EPOCH,
        sent_unix_ms=world.clock.now_ms,
        records=(
            Status(
                ts_unix_ms=world.clock.now_ms,
                state="birth",
                agent_version="0",
                driver_version="580.95.05",
                gpus=(GpuInventory(uuid="GPU-1", vendor="nvidia", architecture="Hopper"),),
            ),
        ),
    )
    await world.take(encode(born), topic=topics.STATUS)
    await world.take(world.envelope(1))
    await world.step.flush()

    world.rise()
    world.clock.now_ms += 1_000
    world.pools["edge-01"] = "other"
    await world.take(world.envelope(2))

    (said,) = world.outlet.verdicts
    assert (said.pool, said.driver.version, said.driver.compatibility) == (
        "other",
        "580.95.05",
        "ok",
    )


async def test_when_kafka_fails_nothing_is_acknowledged(world):
    """BR-92: the failure leaves the step, so the process ends and reads the records again."""
    await world.take(world.envelope(1))
    world.outlet.failure = OSError("no broker")

    with pytest.raises(OSError, match="no broker"):
        await world.step.flush()

    assert world.acked == []


async def test_reading_again_after_a_crash_changes_nothing(world):
    """Duplicates: the successor is told everything twice and counts it once."""
    for seq in range(1, 4):
        await world.take(world.envelope(seq))
    await world.step.flush()
    revision = world.outlet.verdicts[-1].revision
    world.rise()

    for seq in range(1, 6):
        await world.take(world.envelope(seq))
    world.clock.now_ms += 60_000
    await world.step.tick()

    assert world.counted() == 5
    assert world.outlet.verdicts[-1].intake.received == 5
    assert world.outlet.verdicts[0].revision in {revision, revision + 1}


@pytest.mark.parametrize("cut", ["after windows", "after states"])
async def test_a_crash_between_the_two_tables_counts_each_sample_once(world, cut):
    """A late sample is in the stored window, its state is not (or both are): once is once."""
    old_ms = world.clock.now_ms - 60_000
    await world.take(world.envelope(1, 2, 3, ts_ms=old_ms), topic=topics.BACKLOG)
    await world.take(world.envelope(8))
    world.clock.now_ms += 30_000
    await world.take(world.envelope(9))
    await world.step.tick()
    await world.step.flush()
    kept = dict(world.states)

    await world.take(world.envelope(4, ts_ms=old_ms), topic=topics.BACKLOG)
    await world.step.flush()
    if cut == "after windows":
        dict.clear(world.states)
        dict.update(world.states, kept)
    world.rise()
    for _ in range(2):
        await world.take(world.envelope(4, ts_ms=old_ms), topic=topics.BACKLOG)
    await world.take(world.envelope(5, ts_ms=old_ms), topic=topics.BACKLOG)
    await world.step.flush()

    assert max(a.samples for a in world.aggregates if a.window_start_unix_ms <= old_ms) == 5


async def test_windows_close_and_silence_shows_by_the_clock_alone(world):
    """BR-88: three samples, then nothing for anyone: the timer closes and tells."""
    for seq in (1, 2, 3):
        await world.take(world.envelope(seq))
        world.clock.now_ms += 1000
    world.clock.now_ms += 30_000
    await world.step.tick()

    assert world.counted() == 3
    assert world.outlet.verdicts[-1].telemetry in {"stale", "lost"}


async def test_silence_means_nothing_until_the_gathered_records_are_read(world):
    """BR-113: after a pause of ours the fleet is not silent, we are behind."""
    await world.take(world.envelope(1))
    await world.step.flush()
    world.clock.now_ms += 300_000
    world.rise()
    world.step.catch_up({0: world.offset + 2})
    await world.step.tick()
    while_behind = list(world.outlet.verdicts)

    await world.take(world.envelope(2))
    await world.step.tick()

    assert while_behind == []
    assert world.step.behind == frozenset()
    assert {v.telemetry for v in world.outlet.verdicts} == {"fresh"}


async def test_a_revoked_step_forgets_and_acknowledges_nothing(world):
    """What was not written is the successor's to read."""
    await world.take(world.envelope(1))
    world.step.disown()
    await world.step.flush()
    await world.step.tick()

    assert world.acked == []
    assert not world.states


async def test_a_node_that_changes_pools_leaves_a_tombstone(world):
    """The old pool's partition learns that the node is gone."""
    world.pools["edge-01"] = "a"
    await world.take(world.envelope(1))
    world.pools["edge-01"] = "b"
    await world.take(world.envelope(2))
    world.clock.now_ms += 11_000
    await world.step.tick()

    assert world.outlet.verdicts[-1].pool == "b"
    assert world.outlet.withdrawn == [
        ("demo", "edge-01", world.outlet.partition_of_pool("demo", "a"))
    ]


async def test_the_agent_sees_tombstones_and_does_not_acknowledge_them(world):
    """On a real Faust agent, without a broker: raw values, None among them, no automatic ack."""
    app = engine.faust_app(config.Settings(), 1)
    topic = app.topic(*nodes.INPUTS, **engine.RAW)
    seen = []

    async def run(stream):
        async for event in stream.noack().events():
            seen.append((event.message.value, event.message.acked))
            yield event

    agent = app.agent(topic, name="nodes")(run)
    app.loop = asyncio.get_running_loop()
    app.finalize()
    app.flow_control.resume()
    async with agent.test_context() as tested:
        await tested.put(b"one", key=b"k")
        await tested.put(None, key=b"k")
        await tested.put(b"not json \xff", key=b"k")

    assert [value for value, _ in seen] == [b"one", None, b"not json \xff"]
    app.consumer._thread.thread_loop.close()  # Faust made a consumer, which made a loop
