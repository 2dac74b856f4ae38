"""How long to wait before the next try to connect.

The wait doubles with each try up to a ceiling, spread by a jitter so that a fleet does
not return in one moment. It starts again from the least wait only after a connection
that lasted: a broker that greets us and throws us out at once (two clients with one
name, a refused packet) is met with growing waits although each greeting was good.
"""

from typing import Final

from msgspec import Struct

DOUBLINGS_MAX: Final = 30


class Backoff(Struct, frozen=True, kw_only=True):
    """`tries` is how many connections in a row failed or did not last."""

    min_ms: int
    max_ms: int
    lasted_ms: int = 30_000
    tries: int = 0


def after_failure(backoff: Backoff, jitter: float) -> tuple[Backoff, int]:
    """The next state and the wait in ms; `jitter` is a number from 0 to 1."""
    ceiling_ms = min(backoff.max_ms, backoff.min_ms * 2 ** (backoff.tries + 1))
    grown = _with_tries(backoff, min(backoff.tries + 1, DOUBLINGS_MAX))
    return grown, int(ceiling_ms * (0.5 + 0.5 * jitter))


def after_connection(backoff: Backoff, connected_ms: int) -> Backoff:
    """The state after a connection that lasted `connected_ms`."""
    return _with_tries(backoff, 0) if connected_ms >= backoff.lasted_ms else backoff


def _with_tries(backoff: Backoff, tries: int) -> Backoff:
    return Backoff(
        min_ms=backoff.min_ms, max_ms=backoff.max_ms, lasted_ms=backoff.lasted_ms, tries=tries
    )
