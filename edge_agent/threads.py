"""A few threads for calls that block, beside the event loop.

Not `asyncio.to_thread`: its pool is shared by all, so that a slow name server would
hold up the disk, and its threads are waited for at exit, so that one call that never
returns (a driver fault) would keep the process alive. These threads are daemons, are
made only when no other is free, and are bounded by `count_max`.
"""

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple["concurrent.futures.Future[Any]", Callable[[], Any]]


class Threads:
    """Runs calls; `count_max` threads at most, and one that hangs takes one place."""

    def __init__(self, name: str, count_max: int) -> None:
        self._name = name
        self._count_max = count_max
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._count = 0

    @property
    def count(self) -> int:
        """How many threads there are."""
        return self._count

    def submit(self, call: Callable[[], T]) -> "concurrent.futures.Future[T]":
        """Start `call` as soon as a thread is free. Not to be used from several threads."""
        future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._jobs.put((future, call))
        if not self._idle.acquire(blocking=False) and self._count < self._count_max:
            self._count += 1
            name = f"{self._name}-{self._count}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return future

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` on a thread and wait for it."""
        return await asyncio.wrap_future(self.submit(call))

    def close(self) -> None:
        """Let the idle threads end; one that hangs dies with the process."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, call = job
            is_wanted = future.set_running_or_notify_cancel()
            result, failure = _outcome(call) if is_wanted else (None, None)
            self._idle.release()  # before the answer: who hears it may submit again at once
            if failure is not None:
                future.set_exception(failure)
            elif is_wanted:
                future.set_result(result)
            del job, future, call, result, failure


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - it is the caller's to handle
        return None, error
