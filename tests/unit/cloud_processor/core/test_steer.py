"""The by-pool step: the brake, the silence of many, and what is told."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import budget, deserved, model, policy, steer
from support import steering

RULES = policy.Policy()
T0_MS = 10_000_000


class Pool:
    """A pool before its steersman; every state is written down and read again."""

    def __init__(self, nodes=10, rules=RULES):
        self.rules = rules
        self.now_ms = T0_MS
        self.state = steer.fresh_pool("demo", "default")
        self.revisions = {}
        self.carried = {}
        self.wishes = []
        self.names = [f"n{i:03d}" for i in range(nodes)]
        for name in self.names:
            self.say(name)
        self.wishes = []

    def say(self, name, **changes):
        revision = self.revisions[name] = self.revisions.get(name, 0) + 1
        said = steering.verdict(name, revision=revision, **{"ts_unix_ms": self.now_ms, **changes})
        return self._keep(
            *steer.on_verdict(self.state, said, policy=self.rules, now_ms=self.now_ms)
        )

    def fail(self, name, reason="xid-79"):
        return self.say(name, health="failed", reasons=(reason,))

    def silence(self, name, telemetry="stale"):
        return self.say(name, telemetry=telemetry, load="unknown", reasons=("silent",))

    def tick(self, ms=0):
        self.now_ms += ms
        return self._keep(*steer.on_tick(self.state, policy=self.rules, now_ms=self.now_ms))

    def live(self, ms, **words):
        """Time with heartbeats of all nodes; `words` are the verdicts of some."""
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms:
            self.tick(1000)
            if self.now_ms % 10_000 == 0:
                for name in self.names:
                    self.say(name, **words.get(name, {}))

    def tainted(self, *, hard):
        return {
            name
            for name, taints in self.carried.items()
            if any(deserved.is_hard(t) == hard for t in taints)
        }

    def _keep(self, state, wishes):
        self.state = msgspec.json.decode(msgspec.json.encode(state), type=model.PoolState)
        assert self.state == state
        for wish in wishes:
            self.carried[wish.node] = wish.taints
        self.wishes += wishes
        return wishes


def test_a_failed_node_is_tainted_at_once_and_freed_at_once():
    """Recovery is never blocked by the brake."""
    pool = Pool()
    (wish,) = pool.fail("n001")
    assert wish.taints == (steering.FAILED,)
    assert (wish.pool, wish.node, wish.withheld) == ("default", "n001", ())
    assert "XID 79" in wish.reason
    assert (
        wish.budget.pool_nodes,
        wish.budget.tainted_nodes,
        wish.budget.allowed_nodes,
        wish.budget.frozen,
    ) == (10, 1, 3, False)

    (wish,) = pool.say("n001")
    assert wish.taints == ()
    assert "nothing is wrong" in wish.reason


def test_a_wish_is_told_only_when_it_differs():
    """Heartbeats and new numbers write nothing."""
    pool = Pool()

    assert pool.say("n001") == ()
    assert len(pool.say("n001", load="high")) == 1
    assert pool.say("n001", load="high", reasons=()) == ()


def test_after_a_restart_each_wish_is_told_once_more_under_the_same_id():
    """The same wish of the same verdict is the same decision."""
    pool = Pool()
    (first,) = pool.fail("n001")
    pool.state = steer.restored(pool.state)
    said = msgspec.structs.replace(first.verdict, ts_unix_ms=pool.now_ms + 1)
    state, wishes = steer.on_verdict(pool.state, said, policy=RULES, now_ms=pool.now_ms + 1)

    assert [first.decision_id] == [wish.decision_id for wish in wishes]
    assert [first.taints] == [wish.taints for wish in wishes]
    _, again = steer.on_verdict(state, said, policy=RULES, now_ms=pool.now_ms + 2)
    assert again == ()


def test_an_older_verdict_changes_nothing():
    """Read again after a crash, it must not undo a newer one."""
    pool = Pool()
    pool.now_ms += 1000
    pool.fail("n001")

    assert pool.say("n001", ts_unix_ms=pool.now_ms - 500) == ()
    assert pool.state.nodes["n001"].verdict.health == "failed"


def test_six_of_ten_failing_are_not_all_tainted():
    """BR-113: new taints stop at the share, come no faster than the rate, and say so."""
    pool = Pool()
    for name in pool.names[:6]:
        pool.fail(name)
    assert len(pool.tainted(hard=True)) == 1
    withheld = [w for w in pool.wishes if w.withheld]
    assert len(withheld) == 5
    assert "one more each 60000 ms" in withheld[-1].reason

    words = {n: {"health": "failed", "reasons": ("xid-79",)} for n in pool.names[:6]}
    pool.live(600_000, **words)
    assert len(pool.tainted(hard=True)) == 3
    assert "3 of 10 nodes tainted, at most 3" in pool.fail("n005", "xid-95")[-1].reason


def test_the_brake_opens_by_itself_for_one_node():
    """After the refill time one withheld taint is granted, to the oldest cause."""
    pool = Pool()
    for name in pool.names[:4]:
        pool.fail(name)
    words = {n: {"health": "failed", "reasons": ("xid-79",)} for n in pool.names[:4]}

    pool.live(59_000, **words)
    assert len(pool.tainted(hard=True)) == 1
    pool.live(2_000, **words)
    assert len(pool.tainted(hard=True)) == 2


def test_a_node_that_recovers_makes_room_but_gives_no_token():
    """Taking a taint away is free and earns nothing."""
    pool = Pool()
    pool.fail("n000")
    pool.fail("n001")
    pool.say("n000")
    pool.tick(1000)

    assert set() == pool.tainted(hard=True)
    pool.live(60_000, n001={"health": "failed", "reasons": ("xid-79",)})
    assert {"n001"} == pool.tainted(hard=True)


def test_a_taint_that_changes_its_value_is_not_a_new_one():
    """A second fault of a tainted node costs nothing."""
    pool = Pool()
    pool.fail("n000")
    tokens = pool.state.hard.tokens
    (wish,) = pool.fail("n000", "gpu-lost")

    assert wish.taints[0].value == "gpu-lost"
    assert tokens == pool.state.hard.tokens


def test_hard_and_soft_taints_have_budgets_of_their_own():
    """A fleet that is full does not keep a broken node from being tainted."""
    pool = Pool()
    for name in pool.names[:7]:
        pool.say(name, load="saturated")
    pool.fail("n009")

    assert {"n009"} == pool.tainted(hard=True)
    assert len(pool.tainted(hard=False)) == 3
    pool.live(
        60_000, n009={"health": "failed"}, **{n: {"load": "saturated"} for n in pool.names[:9]}
    )
    assert len(pool.tainted(hard=False)) == 7


def test_a_node_may_carry_both():
    """Failed and saturated: the hard one may be granted while the soft one is withheld."""
    rules = policy.parse({"budget": {"soft": {"share_max": 0}}})
    pool = Pool(rules=rules)
    (wish,) = pool.say("n000", health="failed", reasons=("xid-79",), load="saturated")

    assert wish.taints == (steering.FAILED,)
    assert [t.key for t in wish.withheld] == ["windvane.io/gpu-saturated"]
    assert "gpu-saturated withheld: 0 of 10 nodes tainted, at most 0" in wish.reason


def test_a_single_silent_node_is_tainted_softly_after_the_grace():
    """It is found, and it is not an outage of many."""
    pool = Pool()
    (wish,) = pool.silence("n000")
    assert wish.taints == ()
    assert wish.labels["windvane.io/gpu.telemetry"] == "stale"

    pool.tick(RULES.silence.grace_ms - 1)
    assert set() == pool.tainted(hard=False)
    pool.tick(1)
    assert {"n000"} == pool.tainted(hard=False)

    (wish,) = pool.silence("n000", "lost")
    assert wish.taints[0].value == "lost"
    (wish,) = pool.say("n000")
    assert wish.taints == ()


def test_when_all_fall_silent_nobody_is_tainted():
    """BR-113: the bridge stops, all ten go stale in the same minute: the feed is at fault."""
    pool = Pool()
    for name in pool.names:
        pool.now_ms += 300
        pool.silence(name)
        pool.tick(0)
    for _ in range(120):
        pool.tick(1000)

    assert pool.state.frozen
    assert set() == pool.tainted(hard=False) | pool.tainted(hard=True)
    withheld = [w for w in pool.wishes if w.withheld]
    assert withheld
    assert "the monitor is at fault" in withheld[-1].reason
    assert withheld[-1].budget.frozen


def test_a_freeze_ends_by_itself_when_enough_are_back():
    """Then what stayed silent is an ordinary silent node."""
    pool = Pool()
    for name in pool.names:
        pool.silence(name)
    assert pool.state.frozen
    pool.tick(20_000)

    for name in pool.names[:5]:
        pool.say(name)
    pool.tick(1000)
    assert not pool.state.frozen
    for _ in range(30):
        pool.tick(1000)
        for name in pool.names[:5]:
            pool.say(name)
        for name in pool.names[5:]:
            pool.silence(name)
    assert set(pool.names[5:]) == pool.tainted(hard=False)


def test_a_freeze_holds_back_new_taints_and_removes_none():
    """What was steered before stands; a fault seen during the freeze waits."""
    pool = Pool()
    pool.fail("n000")
    pool.say("n001", load="saturated")
    for name in pool.names[1:9]:
        pool.silence(name)
    assert pool.state.frozen
    (wish,) = pool.fail("n009")
    assert (wish.taints, wish.withheld[0].key.split("/")[1]) == ((), "gpu-failed")
    pool.tick(RULES.silence.grace_ms)

    assert {"n000"} == pool.tainted(hard=True)
    assert {"n001"} == pool.tainted(hard=False)


def test_nodes_that_were_gone_long_before_do_not_count():
    """Six of ten were lost one by one; when the other four fall silent that is an outage,
    and when these are back it is over."""
    pool = Pool()
    gone, others = pool.names[:6], pool.names[6:]
    for name in gone:
        pool.silence(name)
        pool.live(
            40_000,
            **{n: {"telemetry": "lost"} for n in gone if pool.state.nodes[n].silent_since_ms},
        )
    assert not pool.state.frozen

    for name in others:
        pool.silence(name)
    assert pool.state.frozen
    for name in others:
        pool.say(name)
    pool.tick(1000)
    assert not pool.state.frozen


def test_a_small_pool_is_not_frozen():
    """Of two nodes, two silent ones prove nothing."""
    pool = Pool(nodes=2)
    for name in pool.names:
        pool.silence(name)

    assert not pool.state.frozen


def test_when_the_judges_fall_silent_nothing_new_is_tainted():
    """Verdicts stop for most nodes: whoever still speaks is not acted upon."""
    pool = Pool()
    pool.tick(31_000)
    assert pool.state.frozen
    (wish,) = pool.fail("n001")
    assert wish.taints == ()

    for name in pool.names:
        pool.say(name, **({"health": "failed"} if name == "n001" else {}))
    pool.tick(1000)
    assert not pool.state.frozen
    assert {"n001"} == pool.tainted(hard=True)


def test_a_node_that_has_left_is_forgotten():
    """It counts no more, and a node of another name may be tainted in its place."""
    pool = Pool(nodes=3)
    pool.fail("n000")
    pool.state = steer.on_forget(pool.state, "n000", now_ms=pool.now_ms)
    pool.state = steer.on_forget(pool.state, "never-seen", now_ms=pool.now_ms)

    assert {"n001", "n002"} == pool.state.nodes.keys()
    assert pool.tick(1000) == ()


candidates = st.lists(st.sampled_from([f"n{i:03d}" for i in range(10)]), unique=True, min_size=1)


@given(candidates, st.randoms())
def test_the_same_candidates_in_any_order_get_the_same_answer(names, dice):
    """Within one step, order of arrival decides nothing."""
    answers = []
    for _ in range(2):
        dice.shuffle(names)
        pool = Pool(rules=policy.parse({"budget": {"hard": {"rate_share": 0.3, "share_max": 0}}}))
        for name in names:
            pool.fail(name)
        pool.rules = policy.parse({"budget": {"hard": {"rate_share": 0.3}}})
        pool.tick(1000)
        answers.append(pool.tainted(hard=True))

    assert answers[0] == answers[1]
    assert min(3, len(names)) == len(answers[0])


words = st.fixed_dictionaries(
    {
        "health": st.sampled_from(["ok", "ok", "degraded", "failed"]),
        "load": st.sampled_from(["idle", "medium", "saturated", "unknown"]),
        "telemetry": st.sampled_from(["fresh", "fresh", "fresh", "stale", "lost"]),
    }
)
stories = st.lists(
    st.tuples(st.integers(0, 11), words, st.sampled_from([0, 100, 5_000, 61_000])), max_size=60
)


@given(stories)
def test_no_story_raises_a_share_above_its_cap(story):
    """Also over restarts; what is carried is what was granted; a freeze adds nothing."""
    pool = Pool(nodes=12)
    for number, said, more_ms in story:
        before = {hard: pool.tainted(hard=hard) for hard in (True, False)}
        pool.tick(more_ms)
        frozen = pool.state.frozen
        pool.say(pool.names[number], **said)
        pool.state = steer.restored(pool.state) if more_ms == 100 else pool.state
        for hard, limits in ((True, RULES.budget.hard), (False, RULES.budget.soft)):
            now = pool.tainted(hard=hard)
            assert len(now) <= budget.cap(12, limits)
            if frozen and pool.state.frozen:
                assert now <= before[hard]
        for name, member in pool.state.nodes.items():
            assert pool.carried.get(name, ()) == member.granted


NOTHING_KNOWN = {
    "load": "unknown",
    "thermal": "unknown",
    "power": "unknown",
    "memory_free": "unknown",
}


def test_a_node_that_has_just_come_is_labelled_when_something_is_known():
    """No write that says `unknown` four times and is overtaken seconds later."""
    pool = Pool(nodes=3)

    assert pool.say("new", **NOTHING_KNOWN) == ()
    (wish,) = pool.say("new")
    assert wish.labels["windvane.io/gpu.load"] == "low"


def test_a_node_of_which_nothing_gets_known_is_labelled_all_the_same():
    """Labels of an earlier life must not stand for ever: unknown is said after a while."""
    pool = Pool(nodes=3)
    pool.say("new", **NOTHING_KNOWN)

    assert pool.tick(RULES.first_labels_ms - 1) == ()
    (wish,) = pool.tick(1)
    assert wish.labels["windvane.io/gpu.load"] == "unknown"


def test_a_node_that_comes_broken_is_tainted_at_once():
    """Waiting for labels holds back no taint."""
    pool = Pool(nodes=3)
    (wish,) = pool.say("new", **NOTHING_KNOWN, health="failed", reasons=("xid-79",))

    assert wish.taints == (steering.FAILED,)
