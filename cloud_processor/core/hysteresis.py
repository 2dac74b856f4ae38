"""Slow change: a value moves only when a new one has lasted.

Two guards stand between a reading and a change. The bands have separate borders for
entering and leaving, so a reading that hovers at a border stays where it is. And a new
value must be seen a number of times in a row, and the old one must have lasted its hold
time, before the change counts: at most one change per hold time, whatever is read.

| seen | candidate | becomes |
|---|---|---|
| the value | any | candidate forgotten |
| another | the same as before | one more in a row; the value, when enough and the hold is over |
| another | a different one | the new candidate, one in a row |
"""

from cloud_processor.core.model import Settled
from cloud_processor.core.policy import Load
from cloud_processor.core.vocabulary import LOADS

UNKNOWN = "unknown"


def settle(state: Settled, seen: str, *, consecutive: int, hold_ms: int, now_ms: int) -> Settled:
    """One reading later. A value that was unknown is believed without a hold."""
    if seen == state.value:
        return state if not state.candidate else Settled(state.value, state.since_ms)
    streak = state.streak + 1 if seen == state.candidate else 1
    held = state.value == UNKNOWN or now_ms - state.since_ms >= hold_ms
    if streak >= consecutive and held:
        return Settled(seen, now_ms)
    return Settled(state.value, state.since_ms, seen, min(streak, consecutive))


def forget(state: Settled, now_ms: int) -> Settled:
    """The value is not known any more (silence): at once, and any candidate with it."""
    return state if state.value == UNKNOWN else Settled(UNKNOWN, now_ms)


def band(current: str, percent: float, rules: Load) -> str:
    """The load band of a reading, seen from the band it is in now."""
    at = LOADS.index(current) if current in LOADS else 0
    while at > 0 and percent < rules.leave_percent[at - 1]:
        at -= 1
    while at < len(LOADS) - 1 and percent >= rules.enter_percent[at]:
        at += 1
    return LOADS[at]
