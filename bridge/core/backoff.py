"""How long to wait before the next try.

The wait doubles with each try up to a ceiling, spread by a jitter. It starts again from
the least only after something that lasted: a broker that greets us and throws us out
at once (two bridges with one client id) is met with growing waits although each greeting
was good.
"""

from typing import Final

import msgspec

DOUBLINGS_MAX: Final = 30


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """`tries` is how many tries in a row failed or did not last."""

    min_ms: int
    max_ms: int
    lasted_ms: int = 30_000
    tries: int = 0


def after_failure(backoff: Backoff, jitter: float) -> tuple[Backoff, int]:
    """The next state and the wait in ms; `jitter` is a number from 0 to 1."""
    ceiling_ms = min(backoff.max_ms, backoff.min_ms * 2 ** (backoff.tries + 1))
    grown = msgspec.structs.replace(backoff, tries=min(backoff.tries + 1, DOUBLINGS_MAX))
    return grown, int(ceiling_ms * (0.5 + 0.5 * jitter))


def after_success(backoff: Backoff, lasted_ms: int) -> Backoff:
    """The state after something that went well for `lasted_ms`."""
    return msgspec.structs.replace(backoff, tries=0) if lasted_ms >= backoff.lasted_ms else backoff
