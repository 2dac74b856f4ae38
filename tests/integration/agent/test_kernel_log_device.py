"""The real `/dev/kmsg`: what is written there is heard, and read again after a restart."""

import os
import queue
import time
from pathlib import Path

import pytest

from edge_agent import config
from edge_agent.sources import kmsg

pytestmark = pytest.mark.integration
DEVICE = Path("/dev/kmsg")
NOBODYS = "ffff:ff:1f"  # no machine has a GPU there, and 14 is NVIDIA's own test code


def write(text):
    """Write a line into the kernel's log, or skip."""
    try:
        fd = os.open(DEVICE, os.O_WRONLY)
    except OSError as error:
        pytest.skip(f"{DEVICE} cannot be written: {error.strerror}")
    try:
        os.write(fd, f"{text}\n".encode())
    finally:
        os.close(fd)


def test_a_line_is_heard_at_once_and_read_again_after_a_restart():
    """BR-33: by the real device, with one position both times and times that agree."""
    mark = f"windvane-{time.time_ns()}"
    bell = queue.Queue()
    source = kmsg.Kmsg(host=config.Host(), wake=lambda: bell.put(1))
    found = source.available()
    if found.state != "yes":
        pytest.skip(f"{DEVICE} cannot be read: {found.state}: {found.detail}")
    try:
        time.sleep(0.3)
        source.news()
        written_ms = time.time_ns() // 1_000_000
        write(f"NVRM: Xid (PCI:{NOBODYS}): 14, name={mark}")
        first = wait_for(source, bell, mark)
        source.available()
        again = wait_for(source, bell, mark)
    finally:
        source.close()

    assert (first.xid, first.pci_bus_id) == (14, "0000FFFF:FF:1F.0")
    assert first.log == again.log
    assert first.log.boot_id == kmsg.boot_id(config.Host())
    assert abs(first.ts_unix_ms - written_ms) <= 1_000
    assert abs(again.ts_unix_ms - written_ms) <= 1_000 + 0.001 * time.monotonic() * 1_000


def wait_for(source, bell, mark):
    """The event with this mark."""
    deadline_s = time.monotonic() + 5
    while time.monotonic() < deadline_s:
        bell.get(timeout=5)
        for event in source.news():
            if mark in event.detail:
                return event
    raise AssertionError("the line was not heard")
