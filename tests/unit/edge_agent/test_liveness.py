"""What keeps the agent alive in the eyes of a supervisor, and what does not."""

import asyncio
import socket

import pytest

from edge_agent import liveness


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def life(clock):
    return liveness.Liveness(clock)


def test_ticks_that_reach_the_disk_keep_it_alive(life, clock):
    """BR-23: a hung GPU does not stop ticks, so it never gets the agent killed."""
    for _ in range(100):
        clock.now_s += 1
        life.beat()
        life.ticked("edge-01", 1.0)
        assert life.trouble() == ""


def test_a_slow_cadence_is_no_death(life, clock):
    """A node whose GPUs sleep ticks every 30 s; with a byte budget every 15 min."""
    life.ticked("edge-01", 900.0)
    for _ in range(900):
        clock.now_s += 1
        life.beat()
    assert life.trouble() == ""


def test_a_loop_that_stands_still_is_dead(life, clock):
    """Nobody else can tell: the page is served by another thread."""
    clock.now_s = 21.0

    assert "event loop" in life.trouble()


def test_a_disk_that_takes_nothing_is_told_by_node(life, clock):
    """One node of many that cannot write for over a minute is named."""
    life.ticked("edge-01", 1.0)
    clock.now_s = 62.0
    life.beat()
    life.ticked("edge-02", 1.0)

    assert life.trouble().startswith("edge-01")
    life.forget("edge-01")
    assert life.trouble() == ""


def test_readiness_says_what_is_wrong(life):
    """BR-25: an agent whose library does not fit the driver is not ready, and says so."""
    life.readiness("edge-01", "nvml: driver mismatch")
    assert life.unready() == "edge-01: nvml: driver mismatch"

    life.readiness("edge-01", "")
    assert life.unready() == ""


async def test_systemd_is_told(life, tmp_path):
    """READY once, WATCHDOG while it lives, STOPPING at the end; nobody listening is no error."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(path))
        listener.settimeout(2)
        task = asyncio.ensure_future(liveness.keep_beating(life, {"NOTIFY_SOCKET": str(path)}))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        heard = [listener.recv(64) for _ in range(3)]

    assert heard == [b"READY=1", b"WATCHDOG=1", b"STOPPING=1"]
    liveness._notify(str(tmp_path / "nobody"), "READY=1")
