"""When ticks are due."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import schedule


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=50))
def test_ticks_stay_on_the_grid(delays):
    """However late each tick is taken, the next is due on the grid and never in the past."""
    plan, now_ms = schedule.Schedule(start_ms=100, tick_ms=1000), 100
    for delay in delays:
        now_ms = max(now_ms, plan.due_ms) + delay
        plan, missed = schedule.after_tick(plan, now_ms)

        assert (plan.due_ms - 100) % 1000 == 0
        assert now_ms < plan.due_ms <= now_ms + 1000
        assert missed >= 0


def test_a_stall_gives_no_burst():
    """After five seconds of standing still one tick is taken and five are counted as missed."""
    plan = schedule.Schedule(start_ms=0, tick_ms=1000)
    plan, missed = schedule.after_tick(plan, 5500)

    assert (plan.due_ms, missed) == (6000, 5)


def test_a_tick_taken_early_still_counts():
    """A clock that wakes a moment too soon does not take the same tick twice."""
    plan = schedule.Schedule(start_ms=0, tick_ms=1000, index=3)
    plan, missed = schedule.after_tick(plan, 2999)

    assert (plan.due_ms, missed) == (4000, 0)
