"""When to sample: a grid on the monotonic clock.

Tick k is due at `start_ms + k * tick_ms`, so that small delays do not add up. After a
stall (suspend, a starved machine) the missed ticks are skipped and counted, not made up
for in a burst: a burst of readings of one moment says nothing new.
"""

from msgspec import Struct


class Schedule(Struct, frozen=True, kw_only=True):
    """`index` is the tick that comes next."""

    start_ms: int
    tick_ms: int
    index: int = 0

    @property
    def due_ms(self) -> int:
        """When the next tick is due."""
        return self.start_ms + self.index * self.tick_ms


def after_tick(schedule: Schedule, now_ms: int, wait_ms: int) -> tuple[Schedule, int]:
    """The schedule after a tick was taken at `now_ms`, and how many ticks were missed.

    The next is on the grid, at least `wait_ms` after the grid's last point.
    """
    passed = (now_ms - schedule.start_ms) // schedule.tick_ms
    missed = max(0, passed - schedule.index)
    steps = max(1, -(-wait_ms // schedule.tick_ms))
    return (
        Schedule(start_ms=schedule.start_ms, tick_ms=schedule.tick_ms, index=passed + steps),
        missed,
    )
