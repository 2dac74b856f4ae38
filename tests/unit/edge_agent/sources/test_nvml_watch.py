"""Calls that do not return."""

import threading
import time

from edge_agent.sources.nvml import watch

LIMIT_S = 0.05


def nvml_threads():
    return [one for one in threading.enumerate() if one.name == "nvml" and one.is_alive()]


def test_jobs_give_their_values_and_their_exceptions():
    """Each outcome is its job's own; one that raises does not stop the others."""
    found = watch.Watch(LIMIT_S).run({"a": lambda: 1, "b": lambda: 1 / 0, "c": lambda: 3})

    assert (found["a"], found["c"]) == (1, 3)
    assert isinstance(found["b"], ZeroDivisionError)


def test_a_call_that_hangs_costs_its_device_only():
    """BR-23: the second of three hangs: the others answer in the same round, once the limit is
    over; it is not called again, and no thread is started for it again, until it has returned.
    """
    gate, calls = threading.Event(), []

    def hang():
        calls.append(1)
        gate.wait()
        return "late"

    watched = watch.Watch(LIMIT_S)
    jobs = {"a": lambda: 1, "b": hang, "c": lambda: 3}
    before = len(nvml_threads())
    started_s = time.monotonic()
    first = watched.run(jobs)
    passed_s = time.monotonic() - started_s
    rounds = [watched.run(jobs) for _ in range(20)]

    assert first["a"] == 1
    assert first["b"] is watch.HUNG
    assert first["c"] == 3
    assert LIMIT_S <= passed_s < 10 * LIMIT_S
    assert [one["b"] for one in rounds] == [watch.HUNG] * 20
    assert len(calls) == 1
    assert len(nvml_threads()) <= before + 2
    gate.set()
    for _ in range(200):
        if not watched.hung:
            break
        time.sleep(0.005)
    assert watched.run({"b": lambda: "again"}) == {"b": "again"}


def test_every_device_may_hang():
    """Three that hang cost one thread each and three limits, once."""
    gate = threading.Event()
    watched = watch.Watch(LIMIT_S)
    found = watched.run(dict.fromkeys("abc", gate.wait))

    assert set(found.values()) == {watch.HUNG}
    assert watched.hung == frozenset("abc")
    started_s = time.monotonic()
    watched.run(dict.fromkeys("abc", gate.wait))
    assert time.monotonic() - started_s < LIMIT_S
    gate.set()


def test_a_fault_of_the_whole_driver_is_told_soon():
    """BR-23's kind: 16 devices hang, each found in half the time of the one before: all are told
    in far less than 16 limits.
    """
    gate = threading.Event()
    watched = watch.Watch(2 * LIMIT_S)
    started_s = time.monotonic()
    found = watched.run(dict.fromkeys("abcdefghijklmnop", gate.wait))
    passed_s = time.monotonic() - started_s
    gate.set()

    assert set(found.values()) == {watch.HUNG}
    assert passed_s < 8 * 2 * LIMIT_S


def test_a_last_job_is_done_after_the_others():
    """What is to be done at the end is, by the same thread, and nobody waits for it."""
    done = threading.Event()
    watched = watch.Watch(LIMIT_S)
    watched.run({"a": lambda: 1})
    watched.close({"last": done.set})

    assert done.wait(1)


def test_closing_does_not_wait():
    """A thread that hangs does not hold up the end of the process."""
    gate = threading.Event()
    watched = watch.Watch(LIMIT_S)
    watched.run({"a": gate.wait})
    started_s = time.monotonic()
    watched.close()

    assert time.monotonic() - started_s < 0.05
    gate.set()
