"""The by-pool shell: budget survives, wishes go out, answers become decisions."""

import prometheus_client as prom
import pytest

from cloud_processor import telemetry
from cloud_processor.core import policy
from cloud_processor.kube import results
from cloud_processor.streams import pools
from support import steering, steps
from wire import topics
from wire.codec import encode


class Writer:
    """Takes down wishes, and what was in Kafka when they came."""

    def __init__(self, world):
        self.world = world
        self.wishes = []
        self.forgotten = []

    def wish(self, wish):
        self.wishes.append((wish, len(self.world.states.log), self.world.outlet.settled))

    def forget(self, node):
        self.forgotten.append(node)


class World:
    def __init__(self):
        self.clock = steps.Clock()
        self.states = steps.Table()
        self.outlet = steps.Outlet()
        self.acked = []
        self.offset = 0
        self.rise()

    def rise(self):
        self.writer = Writer(self)
        self.step = pools.PoolStep(
            states=self.states,
            outlet=self.outlet,
            writer=self.writer,
            rules=policy.Policy(),
            telemetry=telemetry.Telemetry(prom.CollectorRegistry()),
            ack=lambda message: self.acked.append(message.offset),
            now_ms=self.clock,
        )
        self.step.own(range(steps.PARTITIONS))

    async def take(self, verdict):
        await self.raw(f"{verdict.cluster}/{verdict.node}".encode(), encode(verdict), verdict.pool)

    async def raw(self, key, value, pool="default"):
        self.offset += 1
        partition = self.outlet.partition_of_pool("demo", pool)
        await self.step.take(
            steps.message(topics.VERDICTS, key, value, offset=self.offset, partition=partition)
        )

    def verdict(self, node="edge-01", revision=1, **changes):
        now_ms = self.clock.now_ms
        given = {"ts_unix_ms": now_ms, "arrived_unix_ms": now_ms, **changes}
        return steering.verdict(node, revision=revision, **given)

    async def fleet(self, count=6):
        for n in range(1, count + 1):
            await self.take(self.verdict(f"edge-{n:02d}"))
        self.clock.now_ms += 1000


@pytest.fixture
def world():
    return World()


async def test_a_failed_node_is_wished_tainted_and_the_state_is_written_first(world):
    """The budget that was spent is in Kafka before the writer hears of the wish."""
    await world.fleet()
    log, settled = len(world.states.log), world.outlet.settled

    await world.take(world.verdict("edge-02", 2, health="failed", reasons=("xid-79",)))

    wish, log_then, settled_then = world.writer.wishes[-1]
    assert [t.key for t in wish.taints] == ["windvane.io/gpu-failed"]
    assert (log_then, settled_then) == (log + 1, settled + 1)


async def test_spent_budget_survives_a_kill(world):
    """Nothing was flushed in peace; the successor still grants no more than the pool bears."""
    await world.fleet()
    await world.take(world.verdict("edge-01", 2, health="failed"))
    world.rise()

    for n in (2, 3, 4):
        await world.take(world.verdict(f"edge-{n:02d}", 2, health="failed"))

    tainted = {w.node for w, _, _ in world.writer.wishes if w.taints}
    withheld = {w.node for w, _, _ in world.writer.wishes if w.withheld}
    assert len(tainted - {"edge-01"}) <= 1
    assert withheld >= {"edge-03", "edge-04"}


async def test_an_outage_of_the_monitor_taints_nobody(world):
    """BR-113: all nodes fall silent in the same moment: steering freezes."""
    await world.fleet(10)
    for n in range(1, 11):
        await world.take(world.verdict(f"edge-{n:02d}", 2, telemetry="stale", load="unknown"))
    world.clock.now_ms += 60_000
    await world.step.tick()

    assert not any(w.taints for w, _, _ in world.writer.wishes)


async def test_after_a_restart_each_wish_is_told_once_more(world):
    """BR-110: the writer plans it against the node and finds it as wished."""
    await world.fleet(3)
    await world.step.flush()
    first = {w.node: (w.labels, w.taints) for w, _, _ in world.writer.wishes}
    world.rise()
    await world.fleet(3)

    assert {w.node: (w.labels, w.taints) for w, _, _ in world.writer.wishes} == first


async def test_verdicts_are_acknowledged_when_the_pool_that_knows_them_is_written(world):
    """BR-92, for the by-pool step."""
    await world.fleet(3)
    before = list(world.acked)
    await world.step.flush()

    assert before == []
    assert world.acked == [1, 2, 3]


async def test_a_bad_verdict_is_dead_lettered(world):
    """BR-91, for the by-pool step."""
    await world.raw(b"demo/edge-01", b"junk")
    await world.fleet(1)
    await world.step.flush()

    assert [reason for reason, _, _ in world.outlet.dead] == ["malformed"]
    assert world.acked == [1, 2]


async def test_a_node_without_a_pool_is_not_steered(world):
    """A node that Kubernetes does not know is shown and never touched."""
    await world.take(world.verdict("edge-01", pool=None))

    assert world.writer.wishes == []


async def test_a_node_that_changes_pools_is_forgotten_by_the_old_one(world):
    """The verdict with the new pool, or the tombstone, whichever comes first."""
    await world.take(world.verdict("edge-01", pool="default"))
    await world.take(world.verdict("edge-01", 2, pool="other"))
    await world.take(world.verdict("edge-02", pool="default"))
    await world.raw(b"demo/edge-02", None)

    states = {name: set(pool.state.nodes) for name, pool in world.step._pools.items()}
    assert states == {"demo/default": set(), "demo/other": {"edge-01"}}
    assert world.writer.forgotten == ["edge-01", "edge-02"]


async def test_an_answer_becomes_a_decision_that_explains_itself(world):
    """Wish, outcome, budget, verdict, patch and the time of the API server's answer."""
    wish = steering.wish(taints=[steering.FAILED])

    await world.step.answered(
        results.Result(
            wish=wish, outcome="applied", reason="r", patch={"spec": {}}, answered_unix_ms=7
        )
    )

    (decision,) = world.outlet.decisions
    assert (decision.id, decision.outcome, decision.answered_unix_ms) == ("edge-01-1", "applied", 7)
    assert decision.taints == (steering.FAILED,)
    assert decision.verdict == wish.verdict


async def test_a_revoked_step_wishes_nothing(world):
    """The new owner of the pool does."""
    await world.fleet(3)
    world.step.disown()
    world.clock.now_ms += 600_000
    await world.step.tick()
    await world.step.flush()

    assert world.acked == []
