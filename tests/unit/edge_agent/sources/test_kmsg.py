"""The kernel's log as a source: a thread, its queue, and what it refuses."""

import errno
import os
import queue
import socket
import threading
import time
from pathlib import Path

import pytest

from edge_agent import config, errors
from edge_agent.core import reading, xids
from edge_agent.sources import catalog, kmsg

BOOT = "ca0a1beb-8cc6-4c98-87a4-a374baa99efa"
UNIX_MS = 1_790_000_000_000
FDS = Path("/proc/self/fd")
UP_US = 100_000_000
XID = "NVRM: Xid (PCI:0000:3b:00): {code}, pid=7, name=python"


def line(sequence, code=79, stamp_us=UP_US, text=None):
    """A record of the kernel's log."""
    return f"4,{sequence},{stamp_us},-;{text or XID.format(code=code)}\n SUBSYSTEM=pci\n".encode()


class Machine:
    """A host with a boot id and a log of whole records (a socket keeps their bounds)."""

    def __init__(self, tmp_path):
        folder = tmp_path / "proc/sys/kernel/random"
        folder.mkdir(parents=True)
        (folder / "boot_id").write_text(BOOT + "\n")
        self.host = config.Host(proc=str(tmp_path / "proc"), dev=str(tmp_path / "dev"))
        self.bell = queue.Queue()
        self.ring = []
        self.refusal = None
        self.writer = None
        self.source = kmsg.Kmsg(
            host=self.host,
            wake=lambda: self.bell.put(1),
            open_log=self.open,
            clock=kmsg.Clock(lambda: UP_US * 1_000, lambda: UNIX_MS * 1_000_000),
        )

    def open(self, path):
        assert str(path) == f"{self.host.dev}/kmsg"
        if self.refusal is not None:
            raise OSError(self.refusal, os.strerror(self.refusal))
        if self.writer is not None:
            self.writer.close()
        self.writer, reader = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for raw in self.ring:
            self.writer.send(raw)
        reader.setblocking(False)
        return reader.detach()

    def write(self, *raw):
        self.ring += raw
        for one in raw:
            self.writer.send(one)

    def news(self, count):
        """The next news; waits for the bell as the sampler does."""
        found = []
        while len(found) < count:
            self.bell.get(timeout=2)
            found += self.source.news()
        return found


@pytest.fixture
def machine(tmp_path):
    found = Machine(tmp_path)
    yield found
    found.source.close()
    if found.writer is not None:
        found.writer.close()


def test_it_is_a_source_and_a_herald(machine):
    """It fits where the catalogue's sources fit, and tells no GPUs."""
    assert isinstance(machine.source, catalog.Herald)
    assert machine.source.available().state == "yes"
    assert machine.source.read() == (reading.Observation(complete=False),)
    assert list(machine.source.news()) == []


def test_what_was_in_the_log_before_the_start_is_told_with_its_time(machine):
    """BR-33: reading begins with the oldest record; the time is that of the record."""
    machine.ring = [line(1, text="Linux version 6"), line(40, stamp_us=5_000_000)]
    machine.source.available()

    assert machine.news(1) == [
        reading.RawEvent(
            event="xid",
            ts_unix_ms=UNIX_MS - 95_000,
            pci_bus_id="00000000:3B:00.0",
            xid=79,
            log=reading.LogPosition(BOOT, 40),
            detail="pid=7, name=python",
        )
    ]


def test_each_start_reads_from_the_beginning(machine):
    """BR-33: the same positions again, by which the ledger knows them."""
    machine.ring = [line(40), line(41)]
    told = []
    for _ in range(2):
        machine.source.available()
        told.append([one.log.sequence for one in machine.news(2)])

    assert told == [[40, 41], [40, 41]]


def test_one_event_per_xid_over_three_starts(machine, tmp_path):
    """BR-33: a fault of the driver's start, an agent restarted, a reboot: two XIDs, two events."""
    ledger, events = xids.Ledger(), []
    for boot, sequence in (("boot-1", 40), ("boot-1", 40), ("boot-2", 38)):
        (tmp_path / "proc/sys/kernel/random/boot_id").write_text(boot)
        machine.ring = [line(sequence, stamp_us=5_000_000)]
        machine.source.available()
        ledger = xids.resume(ledger, boot_id=kmsg.boot_id(machine.host), now_ms=100_000)
        done = xids.step(ledger, machine.news(1), uuid_of={}, now_ms=100_000, now_unix_ms=UNIX_MS)
        ledger = done.ledger
        events += done.events

    assert [(one.xid, one.count, one.ts_unix_ms) for one in events] == [
        (79, 1, UNIX_MS - 95_000),
        (79, 1, UNIX_MS - 95_000),
    ]


def test_what_comes_while_it_waits_wakes_and_happened_now(machine):
    """A record whose stamp has drifted is dated by its coming; garbage wakes nobody."""
    machine.source.available()
    time.sleep(0.05)
    machine.write(b"\xff\xfe garbage", line(7, text="usb 1-1: new"), line(8, stamp_us=1))
    [event] = machine.news(1)

    assert event.ts_unix_ms == UNIX_MS
    assert machine.bell.empty()


def test_a_stamp_of_the_future_is_now(machine):
    """The kernel's log clock may be ahead: no event comes from the future."""
    machine.ring = [line(1, stamp_us=UP_US + 60_000_000)]
    machine.source.available()

    assert machine.news(1)[0].ts_unix_ms == UNIX_MS


def test_a_storm_waits_in_the_kernel_and_none_is_lost(machine, monkeypatch):
    """BR-32: the queue is bounded by not reading on; all come, in order."""
    monkeypatch.setattr(kmsg, "QUEUE_MAX", 10)
    monkeypatch.setattr(kmsg, "FULL_WAIT_MS", 1)
    machine.ring = [line(n) for n in range(100)]
    machine.source.available()
    time.sleep(0.05)
    first = list(machine.source.news())
    rest = machine.news(90)

    assert len(first) == 10
    assert [one.log.sequence for one in [*first, *rest]] == list(range(100))


def test_an_overrun_is_told_with_its_number(machine, monkeypatch):
    """Records that were overwritten unread are counted and said, and reading goes on."""
    machine.source.available()
    machine.write(line(3))
    machine.news(1)
    reads = iter([OSError(errno.EPIPE, "Broken pipe"), OSError(errno.EINVAL, "Invalid argument")])
    plain = os.read

    def read(fd, size):
        failure = next(reads, None) if threading.current_thread().name == "kmsg" else None
        if failure is not None:
            raise failure
        return plain(fd, size)

    monkeypatch.setattr(os, "read", read)
    machine.write(line(104))
    failed, back, xid = machine.news(3)

    assert (failed.event, back.event, xid.log.sequence) == ("source-failed", "source-back", 104)
    assert "100 records" in failed.detail


@pytest.mark.parametrize(
    ("refusal", "state"),
    [
        (errno.ENOENT, "no device"),
        (errno.ENODEV, "no device"),
        (errno.EPERM, "no permission"),
        (errno.EACCES, "no permission"),
        (errno.EMFILE, "failed"),
    ],
)
def test_a_log_that_cannot_be_opened_says_why(machine, refusal, state):
    """No device, no permission, or another reason; nothing raises and no thread is left."""
    machine.refusal = refusal
    found = machine.source.available()

    assert (state, os.strerror(refusal)) == (found.state, found.detail)
    assert list(machine.source.news()) == []
    with pytest.raises(errors.SourceError):
        machine.source.read()


def test_a_host_without_a_boot_id_is_not_read(machine, tmp_path):
    """A position without its boot would let a reboot hide XIDs."""
    (tmp_path / "proc/sys/kernel/random/boot_id").unlink()

    assert machine.source.available().state == "failed"


def test_a_log_that_ends_is_a_failure_and_can_be_opened_again(machine):
    """The reader says that it is deaf, and hears again after the next look."""
    machine.source.available()
    machine.writer.close()
    time.sleep(0.1)
    with pytest.raises(errors.SourceError, match="ended"):
        machine.source.read()

    assert machine.source.available().state == "yes"
    machine.write(line(9))
    assert [one.xid for one in machine.news(1)] == [79]


def test_closing_ends_the_thread_and_gives_back_every_descriptor(machine):
    """BR-27: a hundred opens and closes leave neither threads nor descriptors."""
    machine.source.available()
    machine.source.close()
    before = len(list(FDS.iterdir())), threading.active_count()
    for _ in range(100):
        machine.source.available()
        machine.source.close()
    machine.source.close()

    assert before == (len(list(FDS.iterdir())), threading.active_count())


def test_a_fifo_with_many_records_in_one_read(tmp_path, machine):
    """The device's own path is opened; a pipe that joins records is read all the same."""
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev/kmsg")
    source = kmsg.Kmsg(host=machine.host, wake=lambda: machine.bell.put(1))
    assert source.available().state == "yes"
    with (tmp_path / "dev/kmsg").open("wb") as writer:
        writer.write(line(1, 31) + line(2, text="usb") + line(3, 95))
        writer.flush()
        machine.bell.get(timeout=2)
        news = source.news()
    source.close()

    assert [(one.xid, one.log.sequence) for one in news] == [(31, 1), (95, 3)]
