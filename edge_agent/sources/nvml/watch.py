"""The one thread that calls NVML, and what happens when a call does not return.

A driver fault can make a call wait in the kernel for ever. `run` hands the thread a list
of jobs, each for one device, and waits; when the job in hand passes the limit, the device
is hung: its thread is left behind, never waited for again, and a new one goes on with the
jobs that are left. Each device that hangs halves the limit of the jobs after it, so that a
fault of the whole driver is told soon, however many devices there are. A device that is hung
is not touched until the call has come back, so there is never more than one thread waiting
for it. Threads are daemons: one that hangs does not keep the process from ending.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

Job = Callable[[], Any]
LIMIT_SHARE_MIN: Final = 1 / 16


class Hung:
    """The outcome of a job whose device does not answer."""


HUNG = Hung()


class _Round:
    """The jobs that one thread was given, and how far it is."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self.jobs = jobs
        self.outcomes: dict[str, Any] = {}
        self.current = ""
        self.started_s = 0.0
        self.is_left = False
        self.done = threading.Event()


class Watch:
    """Runs jobs one after another on a thread of its own."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._lock = threading.Lock()
        self._hung: set[str] = set()
        self._rounds: queue.SimpleQueue[_Round | None] | None = None

    @property
    def hung(self) -> frozenset[str]:
        """The keys whose call has not come back."""
        with self._lock:
            return frozenset(self._hung)

    def run(self, jobs: Mapping[str, Job], limit_s: float | None = None) -> dict[str, Any]:
        """The outcome of each job: its value, the exception it raised, or `HUNG`."""
        limit_s = self._limit_s if limit_s is None else limit_s
        least_s = limit_s * LIMIT_SHARE_MIN
        hung = self.hung
        outcomes: dict[str, Any] = dict.fromkeys(hung & jobs.keys(), HUNG)
        left = {key: job for key, job in jobs.items() if key not in hung}
        while left:
            round_ = self._begin(left)
            stuck = self._wait(round_, limit_s)
            outcomes.update(round_.outcomes)
            if stuck:
                outcomes[stuck] = HUNG
                limit_s = max(limit_s / 2, least_s)
            left = {key: job for key, job in left.items() if key not in outcomes}
        return outcomes

    def close(self, last: Mapping[str, Job] | None = None) -> None:
        """Let the thread end when it is free, after some last jobs; never waits."""
        if last:
            self._begin(last)
        if self._rounds is not None:
            self._rounds.put(None)
            self._rounds = None

    def _begin(self, jobs: Mapping[str, Job]) -> _Round:
        round_ = _Round(jobs)
        if self._rounds is None:
            self._rounds = queue.SimpleQueue()
            threading.Thread(
                target=self._work, args=(self._rounds,), name="nvml", daemon=True
            ).start()
        self._rounds.put(round_)
        return round_

    def _wait(self, round_: _Round, limit_s: float) -> str:
        """Until the round is done, or its current job is over the limit: then its key."""
        pause_s = limit_s
        while not round_.done.wait(pause_s):
            with self._lock:
                passed_s = time.monotonic() - round_.started_s
                if round_.current and passed_s >= limit_s and not round_.done.is_set():
                    round_.is_left = True
                    self._hung.add(round_.current)
                    self.close()
                    return round_.current
            pause_s = max(0.001, limit_s - passed_s) if round_.current else limit_s
        return ""

    def _work(self, rounds: "queue.SimpleQueue[_Round | None]") -> None:
        while (round_ := rounds.get()) is not None:
            for key, job in round_.jobs.items():
                with self._lock:
                    if round_.is_left:
                        return
                    round_.current, round_.started_s = key, time.monotonic()
                try:
                    outcome = job()
                except Exception as error:  # noqa: BLE001 - it is the caller's to judge
                    outcome = error
                with self._lock:
                    if round_.is_left:
                        self._hung.discard(key)
                        return
                    round_.outcomes[key] = outcome
                    round_.current = ""
            round_.done.set()
