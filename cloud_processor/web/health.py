"""Is the worker getting on? Judged by what it commits, not by being alive.

A worker whose agent has died still answers HTTP and still heartbeats. So health looks at
the committed offsets: records are waiting, and for a while nothing of them was committed
means that somebody should restart us. Until the first assignment is recovered it is not
healthy either, with the time in the reason, so a recovery that never ends shows.
"""

from collections.abc import Mapping

Place = tuple[str, int]


class Health:
    """Fed with offsets now and then; answers with a reason, or None when all is well."""

    def __init__(self, *, stall_s: float, now_s: float) -> None:
        self._stall_s = stall_s
        self._since_s = now_s
        self._ready = False
        self._moved: dict[Place, tuple[int, float]] = {}
        self._lag: dict[Place, int] = {}

    def recovering(self, now_s: float) -> None:
        """Partitions were taken from us, or are being recovered."""
        if self._ready:
            self._since_s = now_s
        self._ready = False
        self._moved.clear()
        self._lag.clear()

    def ready(self) -> None:
        """An assignment is complete."""
        self._ready = True

    def observe(self, offsets: Mapping[Place, tuple[int, int]], now_s: float) -> None:
        """(committed, end) of each partition of ours."""
        for place, (committed, end) in offsets.items():
            lag = max(0, end - committed)
            before = self._moved.get(place)
            if before is None or before[0] != committed or lag == 0:
                self._moved[place] = (committed, now_s)
            self._lag[place] = lag
        for place in self._lag.keys() - offsets.keys():
            del self._lag[place]
            self._moved.pop(place, None)

    def problem(self, now_s: float) -> str | None:
        """Why this worker is not well, or None."""
        if not self._ready:
            return f"tables are recovered since {now_s - self._since_s:.0f} s"
        for place, lag in self._lag.items():
            stood_s = now_s - self._moved[place][1]
            if lag and stood_s > self._stall_s:
                topic, partition = place
                return (
                    f"{topic}/{partition}: {lag} records wait, none committed for {stood_s:.0f} s"
                )
        return None

    def lag_by_topic(self) -> dict[str, int]:
        """Records not committed yet."""
        sums: dict[str, int] = {}
        for (topic, _), lag in self._lag.items():
            sums[topic] = sums.get(topic, 0) + lag
        return sums
