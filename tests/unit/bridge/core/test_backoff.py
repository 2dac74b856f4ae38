"""Waiting between tries."""

from hypothesis import given
from hypothesis import strategies as st

from bridge.core import backoff


def test_grows_after_connections_that_do_not_last() -> None:
    """BR-56: two bridges with one client id are met with growing waits."""
    state = backoff.Backoff(min_ms=500, max_ms=60_000)
    waits = []
    for _ in range(10):
        state = backoff.after_success(state, 100)
        state, wait_ms = backoff.after_failure(state, 0.5)
        waits.append(wait_ms)

    assert waits == sorted(waits)
    assert waits[-1] == 45_000


def test_starts_again_after_one_that_lasted() -> None:
    """A good connection forgets the bad ones before it."""
    state = backoff.Backoff(min_ms=500, max_ms=60_000, tries=9)

    state = backoff.after_success(state, 30_000)

    assert backoff.after_failure(state, 1.0)[1] == 1000


@given(tries=st.integers(0, 100), jitter=st.floats(0, 1))
def test_bounds(tries: int, jitter: float) -> None:
    """A wait is never longer than the ceiling, never shorter than half the least."""
    state = backoff.Backoff(min_ms=500, max_ms=60_000, tries=min(tries, backoff.DOUBLINGS_MAX))

    _, wait_ms = backoff.after_failure(state, jitter)

    assert 250 <= wait_ms <= 60_000
