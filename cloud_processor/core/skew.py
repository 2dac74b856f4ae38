"""The difference between a node's clock and ours, from messages that came the fast way.

A message arrives when it was sent, plus its journey, plus the difference of the clocks.
The smallest difference seen lately holds the shortest journey, so what a message took
longer than that is delay. "Lately" is the current period and the last one before it that
had any message: after a break of hours the old measure still stands, so messages that
waited out the break are known to be old.
"""

from typing import Final

from cloud_processor.core.model import Skew

PERIOD_MS: Final = 60_000
STEP_MS: Final = 1_000


def after(skew: Skew, *, sent_unix_ms: int, arrived_unix_ms: int, newest: bool) -> Skew:
    """One live message later; `newest` is one that was sent after all that are known.

    When the newest message was sent before an earlier one, the node's clock was set back,
    and what was measured before means nothing.
    """
    least_ms = arrived_unix_ms - sent_unix_ms
    period = arrived_unix_ms // PERIOD_MS
    if newest and sent_unix_ms < skew.sent_unix_ms - STEP_MS:
        return Skew(period, least_ms, None, sent_unix_ms, skew.told)
    sent_unix_ms = max(sent_unix_ms, skew.sent_unix_ms)
    if skew.least_ms is None or period > skew.period:
        return Skew(period, least_ms, skew.least_ms, sent_unix_ms, skew.told)
    return Skew(skew.period, min(least_ms, skew.least_ms), skew.before_ms, sent_unix_ms, skew.told)


def least_ms(skew: Skew) -> int | None:
    """The smallest arrival minus sending seen lately."""
    known = [ms for ms in (skew.least_ms, skew.before_ms) if ms is not None]
    return min(known, default=None)


def ahead_ms(skew: Skew) -> int | None:
    """How far the node's clock is ahead of ours, less the shortest journey."""
    least = least_ms(skew)
    return None if least is None else -least


def age_ms(skew: Skew, *, ts_unix_ms: int, sent_unix_ms: int, arrived_unix_ms: int) -> int:
    """How old a record was when it arrived: the wait before sending by the node's clock,
    and what the journey took longer than the shortest.
    """
    waited_ms = max(0, sent_unix_ms - ts_unix_ms)
    journey_ms = arrived_unix_ms - sent_unix_ms
    least = least_ms(skew)
    return waited_ms + max(0, journey_ms - (journey_ms if least is None else least))
