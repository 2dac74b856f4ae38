"""When ticks are due."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import schedule


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 40_000)), min_size=1, max_size=50))
def test_ticks_stay_on_the_grid(steps):
    """However late each tick is taken, the next is due on the grid and after its wait."""
    plan, now_ms = schedule.Schedule(start_ms=100, tick_ms=1000), 100
    for delay_ms, wait_ms in steps:
        now_ms = max(now_ms, plan.due_ms) + delay_ms
        plan, missed = schedule.after_tick(plan, now_ms, wait_ms)

        assert (plan.due_ms - 100) % 1000 == 0
        assert now_ms < plan.due_ms <= now_ms + max(1000, wait_ms + 999)
        assert missed >= 0


def test_a_stall_gives_no_burst():
    """After five seconds of standing still one tick is taken and five are counted as missed."""
    plan = schedule.Schedule(start_ms=0, tick_ms=1000)
    plan, missed = schedule.after_tick(plan, 5500, 1000)

    assert (plan.due_ms, missed) == (6000, 5)


def test_a_tick_taken_before_its_time_does_not_delay_the_next():
    """A sleeper stirred after 3 of 30 s: the next tick is a tick later, and none was missed."""
    plan = schedule.Schedule(start_ms=0, tick_ms=1000, index=30)
    plan, missed = schedule.after_tick(plan, 3020, 1000)

    assert (plan.due_ms, missed) == (4000, 0)
