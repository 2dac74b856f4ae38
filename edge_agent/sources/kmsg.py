"""The kernel's log as a source of XIDs, those from before the agent started too.

`/dev/kmsg` gives one record a read, from the oldest that is still in the kernel's ring, to
each reader on its own, and takes nothing away. A thread waits for records and keeps the
XIDs in a queue until `news` takes them. The queue is bounded by not reading on: what waits
then waits in the kernel's ring, and only when that overruns is anything lost, which the
kernel says (EPIPE), the sequence counts, and a pair of events tells.

Each start reads from the oldest record; the ledger (`core/xids.py`) drops what was told
before. Records that come while we wait happened now. Those that were there already are
dated by their stamp and the boot, never later than now: the kernel's log clock is not
disciplined and stands still in a suspend, so they may be off by seconds, after a suspend
by its length.
"""

import errno
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from edge_agent import config
from edge_agent.core import kernel_log, reading
from edge_agent.errors import SourceError

RECORD_BYTES_MAX: Final = 16_384  # twice what any kernel gives
QUEUE_MAX: Final = 4_096  # a ring of 256 kB holds fewer XIDs
BATCH: Final = 1_024  # records between two looks at the bell
FULL_WAIT_MS: Final = 200
IDLE_WAIT_MS: Final = 60_000  # the bell and the log end the waiting; this is a second belt
CLOSE_WAIT_S: Final = 2.0
NO_DEVICE: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR})
NO_PERMISSION: Final = frozenset({errno.EPERM, errno.EACCES})


class Clock(Struct, frozen=True):
    """The clocks that date a record."""

    monotonic_ns: Callable[[], int] = time.monotonic_ns
    unix_ns: Callable[[], int] = time.time_ns


CLOCK: Final = Clock()


def boot_id(host: config.Host) -> str:
    """The name of this boot; empty when the host does not tell it."""
    try:
        return Path(host.proc, "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


class Kmsg:
    """Tells XIDs and no GPUs."""

    name = "kmsg"
    finished = False

    def __init__(
        self,
        *,
        host: config.Host,
        wake: Callable[[], None],
        open_log: Callable[[Path], int] = lambda path: os.open(path, os.O_RDONLY | os.O_NONBLOCK),
        clock: Clock = CLOCK,
    ) -> None:
        self._host = host
        self._wake = wake
        self._open_log = open_log
        self._clock = clock
        self._listener: _Listener | None = None

    def available(self) -> reading.Availability:
        """Whether the log can be read; when it can, it is listened to from now on."""
        self.close()
        boot = boot_id(self._host)
        if not boot:
            return reading.Availability(state="failed", detail="the boot has no id")
        try:
            fd = self._open_log(Path(self._host.dev, "kmsg"))
        except OSError as error:
            return _refused(error)
        self._listener = _Listener(fd, boot, wake=self._wake, clock=self._clock)
        return reading.Availability(state="yes")

    def read(self) -> tuple[reading.Observation, ...]:
        """No GPUs; raises `SourceError` when the log cannot be read any more."""
        if self._listener is None:
            raise SourceError("the kernel's log is not open")
        if self._listener.problem:
            raise SourceError(self._listener.problem)
        return (reading.Observation(complete=False),)

    def news(self) -> Sequence[reading.RawEvent]:
        """What was heard since the last call."""
        return self._listener.news() if self._listener is not None else ()

    def close(self) -> None:
        """Stop listening; what nobody took is read again at the next start."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()


class _Listener:
    """The thread, its queue, and a bell (a pipe) that ends its waiting."""

    def __init__(self, fd: int, boot: str, *, wake: Callable[[], None], clock: Clock) -> None:
        self.problem = ""
        self._fd = fd
        self._boot = boot
        self._wake = wake
        self._clock = clock
        self._queue: deque[reading.RawEvent] = deque()
        self._next_sequence = 0
        self._is_overrun = False
        self._is_live = False
        self._bell_out, self._bell_in = os.pipe()
        self._thread = threading.Thread(target=self._run, name="kmsg", daemon=True)
        self._thread.start()

    def news(self) -> Sequence[reading.RawEvent]:
        return [self._queue.popleft() for _ in range(len(self._queue))]

    def stop(self) -> None:
        os.write(self._bell_in, b"x")
        self._thread.join(CLOSE_WAIT_S)
        if not self._thread.is_alive():
            for fd in (self._fd, self._bell_in, self._bell_out):
                os.close(fd)

    def _run(self) -> None:
        try:
            while self._wait():
                if self._drain():
                    self._wake()
        except OSError as error:
            self.problem = f"the kernel's log: {error.strerror or error}"

    def _wait(self) -> bool:
        """Wait for a record, or for room in the queue; False when it is time to end."""
        waiting = select.poll()
        waiting.register(self._bell_out, select.POLLIN)
        if len(self._queue) >= QUEUE_MAX:
            self._is_live = False
            ready = waiting.poll(FULL_WAIT_MS)
        else:
            waiting.register(self._fd, select.POLLIN)
            ready = waiting.poll(0)
            if not ready:  # all is read: what comes now, happens now
                self._is_live = True
                ready = waiting.poll(IDLE_WAIT_MS)
        return all(fd != self._bell_out for fd, _ in ready)

    def _drain(self) -> bool:
        """Take what is there, a batch at most; whether any of it is news."""
        before = len(self._queue)
        for _ in range(BATCH):
            raw = self._read() if len(self._queue) < QUEUE_MAX else None
            if raw is None:
                break
            for part in kernel_log.split(raw):
                self._take(part)
        return len(self._queue) > before

    def _read(self) -> bytes | None:
        """The next record; None when there is none yet. What cannot be had is passed over."""
        try:
            raw = os.read(self._fd, RECORD_BYTES_MAX)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.EPIPE:
                self._is_overrun = True
                return b""
            if error.errno == errno.EINVAL:  # a record larger than any is
                return b""
            raise
        if not raw:
            raise OSError(errno.ENODATA, "it has ended")
        return raw

    def _take(self, raw: bytes) -> None:
        record = kernel_log.parse(raw)
        if record is None:
            return
        if self._is_overrun:
            self._is_overrun = False
            self._tell_overrun(record.sequence - self._next_sequence)
        self._next_sequence = record.sequence + 1
        xid = kernel_log.xid_of(record)
        if xid is None:
            return
        self._queue.append(
            reading.RawEvent(
                event="xid",
                ts_unix_ms=self._happened_unix_ms(record.stamp_us),
                pci_bus_id=xid.pci_bus_id,
                xid=xid.code,
                log=reading.LogPosition(self._boot, record.sequence),
                detail=xid.said,
            )
        )

    def _happened_unix_ms(self, stamp_us: int) -> int:
        now_unix_ms = self._clock.unix_ns() // 1_000_000
        if self._is_live:
            return now_unix_ms
        age_ms = (self._clock.monotonic_ns() // 1_000 - stamp_us) // 1_000
        return max(0, now_unix_ms - max(0, age_ms))

    def _tell_overrun(self, lost: int) -> None:
        """The ring overran while we did not keep up: XIDs may be among what is gone."""
        detail = f"kmsg: {max(0, lost)} records of the kernel's log were overwritten unread"
        self._queue.append(reading.RawEvent(event="source-failed", detail=detail))
        self._queue.append(reading.RawEvent(event="source-back", detail="kmsg: reading goes on"))


def _refused(error: OSError) -> reading.Availability:
    detail = error.strerror or str(error)
    if error.errno in NO_DEVICE:
        return reading.Availability(state="no device", detail=detail)
    if error.errno in NO_PERMISSION:
        return reading.Availability(state="no permission", detail=detail)
    return reading.Availability(state="failed", detail=detail)
