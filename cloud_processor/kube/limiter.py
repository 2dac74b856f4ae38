"""A token bucket with a brake: how fast the API server is written to.

`take` answers how long to wait; waiting is the caller's affair, so time can be given in
tests. `hold` stops everyone for a while: after a 429 with its Retry-After, and while the
API server does not answer.
"""

import threading


class Limiter:
    """At most `burst` at once and `per_second` in the long run; thread-safe."""

    def __init__(self, *, per_second: float, burst: int, now_s: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._at_s = now_s
        self._held_until_s = now_s
        self._lock = threading.Lock()

    def take(self, now_s: float) -> float:
        """0.0 when one write may go now (and is counted), else the seconds to wait."""
        with self._lock:
            if now_s < self._held_until_s:
                return self._held_until_s - now_s
            grown = self._tokens + (now_s - self._at_s) * self._per_second
            self._tokens = min(float(self._burst), grown)
            self._at_s = now_s
            if self._tokens < 1.0:
                return (1.0 - self._tokens) / self._per_second
            self._tokens -= 1.0
            return 0.0

    def hold(self, now_s: float, seconds: float) -> None:
        """Nobody writes for `seconds` from now; never shortens an earlier hold."""
        with self._lock:
            self._held_until_s = max(self._held_until_s, now_s + seconds)
