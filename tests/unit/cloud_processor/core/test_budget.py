"""The brake."""

from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import budget
from cloud_processor.core.model import Bucket
from cloud_processor.core.policy import Limits

limits = st.builds(
    Limits, share_max=st.floats(0, 1), rate_share=st.floats(0, 1), refill_ms=st.integers(1, 100_000)
)
names = st.sets(st.sampled_from([f"n{i}" for i in range(30)]), max_size=30)


@given(names, names, st.integers(0, 40), st.floats(0, 50), limits)
def test_no_decision_raises_the_share_above_the_cap(candidates, tainted, more, tokens, rules):
    """Only a shrinking pool may stand above its cap; a decision never leads there."""
    pool_nodes = len(candidates | tainted) + more

    allowed, after = budget.allow(
        sorted(candidates),
        tainted=tainted,
        pool_nodes=pool_nodes,
        bucket=Bucket(tokens, 0),
        limits=rules,
    )

    new = allowed - tainted
    assert not new or len(tainted | new) <= budget.cap(pool_nodes, rules)
    assert len(new) <= tokens
    assert after.tokens == tokens - len(new)
    assert candidates & tainted <= allowed <= candidates


@given(st.integers(0, 500), limits)
def test_the_cap_is_the_share_but_one_node_at_least(pool_nodes, rules):
    """A pool of two may lose one, unless the policy says none."""
    cap = budget.cap(pool_nodes, rules)

    assert cap <= max(1, rules.share_max * pool_nodes)
    assert (cap == 0) == (pool_nodes == 0 or rules.share_max == 0)


@given(st.lists(st.integers(0, 10_000), max_size=20), limits, st.integers(1, 100))
def test_the_bucket_gives_no_more_than_time_allows(steps, rules, pool_nodes):
    """Over any time: at most the capacity and one for each refill."""
    now_ms, spent = 0, 0.0
    bucket = budget.refill(Bucket(), pool_nodes=pool_nodes, limits=rules, now_ms=now_ms)
    capacity = bucket.tokens
    for step_ms in steps:
        now_ms += step_ms
        bucket = budget.refill(bucket, pool_nodes=pool_nodes, limits=rules, now_ms=now_ms)
        whole = int(bucket.tokens)
        spent += whole
        bucket = Bucket(bucket.tokens - whole, bucket.filled_ms)

    assert spent <= capacity + now_ms / rules.refill_ms + 1e-6


def test_a_tripped_brake_opens_for_one_node_after_the_refill_time():
    """Half-open by itself, with one node."""
    rules = Limits(rate_share=0.1, refill_ms=60_000)
    empty = Bucket(0.0, 0)

    early = budget.refill(empty, pool_nodes=50, limits=rules, now_ms=59_999)
    later = budget.refill(empty, pool_nodes=50, limits=rules, now_ms=60_000)

    assert early.tokens < 1 <= later.tokens < 2


def test_time_that_runs_backwards_adds_nothing():
    """BR-43: our own clock may be set back too."""
    rules = Limits()

    back = budget.refill(Bucket(0.5, 90_000), pool_nodes=10, limits=rules, now_ms=10_000)

    assert Bucket(0.5, 10_000) == back
