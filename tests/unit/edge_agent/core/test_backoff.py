"""How long the agent waits before it connects again."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import backoff

START = backoff.Backoff(min_ms=500, max_ms=60_000)


@given(st.integers(0, 100), st.floats(0, 1))
def test_waits_are_bounded(failures, jitter):
    """BR-57: every wait lies between half the least and the ceiling, whatever happened."""
    state = START
    for _ in range(failures):
        state, _ = backoff.after_failure(state, jitter)
    _, wait_ms = backoff.after_failure(state, jitter)

    assert 250 <= wait_ms <= 60_000


def test_waits_double_up_to_the_cap():
    """Without luck the wait doubles, then stays at the cap."""
    state, waits = START, []
    for _ in range(10):
        state, wait_ms = backoff.after_failure(state, 1.0)
        waits.append(wait_ms)

    assert waits[:4] == [1000, 2000, 4000, 8000]
    assert waits[-1] == 60_000


def test_jitter_spreads_a_fleet():
    """BR-57: half of the ceiling is given to the dice."""
    waits = [backoff.after_failure(START, jitter)[1] for jitter in (0.0, 0.5, 1.0)]

    assert waits == [500, 750, 1000]


def test_a_good_greeting_that_does_not_last_changes_nothing():
    """BR-56: thrown out after each CONNACK, the waits go on growing."""
    state = START
    for _ in range(5):
        state = backoff.after_connection(state, 200)
        state, wait_ms = backoff.after_failure(state, 1.0)

    assert wait_ms == 16_000


def test_a_connection_that_lasted_starts_over():
    """After a sound connection the next wait is the least one."""
    state = START
    for _ in range(5):
        state, _ = backoff.after_failure(state, 1.0)
    state = backoff.after_connection(state, state.lasted_ms)
    _, wait_ms = backoff.after_failure(state, 1.0)

    assert wait_ms == 1000
