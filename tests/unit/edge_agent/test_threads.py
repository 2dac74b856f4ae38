"""Threads for calls that block."""

import threading

import pytest

from edge_agent import threads


async def test_one_that_hangs_takes_one_place_only():
    """BR-23: with a call stuck, the others go on, and no more threads than needed are made."""
    pool = threads.Threads("test", 4)
    stuck = threading.Event()
    hanging = pool.submit(stuck.wait)
    results = [await pool.run(lambda n=n: n * n) for n in range(20)]

    assert results == [n * n for n in range(20)]
    assert pool.count == 2
    stuck.set()
    assert hanging.result(1) is True
    pool.close()


async def test_an_error_comes_back_to_the_caller():
    """What the call raises is raised where it is awaited, and the thread lives on."""
    pool = threads.Threads("test", 1)
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0)

    assert await pool.run(lambda: 1) == 1
    pool.close()


async def test_no_more_threads_than_allowed():
    """Beyond the bound calls wait for their turn."""
    pool = threads.Threads("test", 2)
    gate = threading.Event()
    waiting = [pool.submit(lambda: gate.wait(5)) for _ in range(6)]

    assert pool.count == 2
    gate.set()
    assert [one.result(5) for one in waiting] == [True] * 6
    pool.close()
