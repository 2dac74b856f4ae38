"""The thread that hears XIDs, on a library of a few lines."""

import threading
import types

from edge_agent.sources.nvml import codes, events

NONE = 0xFFFFFFFF


class FewLines:
    """What the thread calls, in the order it was called."""

    class NVMLError(Exception):
        def __init__(self, value):
            super().__init__(str(value))
            self.value = value

    def __init__(self, *heard):
        self.heard = list(heard)
        self.calls = []
        self.waits = threading.Event()
        self.gate = threading.Event()

    def nvmlEventSetCreate(self):  # noqa: N802 - as the library names it
        return "set"

    def nvmlDeviceRegisterEvents(self, handle, kinds, _set):  # noqa: N802 - as above
        self.calls.append(("register", handle, kinds))

    def nvmlEventSetWait_v2(self, _set, _timeout):  # noqa: N802 - as above
        if not self.heard:
            self.waits.set()
            self.gate.wait()
            raise self.NVMLError(codes.TIMEOUT)
        one = self.heard.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    def nvmlEventSetFree(self, _set):  # noqa: N802 - as above
        self.calls.append("free")


def xid(number, gpu=NONE, compute=NONE):
    return types.SimpleNamespace(
        eventType=8,
        eventData=number,
        device="a",
        gpuInstanceId=gpu,
        computeInstanceId=compute,
    )


def listening(lib, wake=lambda: None):
    one = events.Events(lib, wake)
    one.listen({"GPU-A": "a"})
    assert lib.waits.wait(2)
    return one


def test_the_instances_that_are_known_are_told():
    """On MIG an event names the parent and what is known of the instance."""
    lib = FewLines(xid(31), xid(31, gpu=2), xid(31, gpu=2, compute=0))
    one = listening(lib)
    heard = one.news()
    lib.gate.set()

    assert {event.gpu_uuid for event in heard} == {"GPU-A"}
    assert [event.detail for event in heard] == [
        "",
        "MIG GPU instance 2",
        "MIG GPU instance 2, compute instance 0",
    ]


def test_the_set_is_freed_by_its_thread_and_never_under_a_wait():
    """BR-27: stopped while it waits: not ended, not freed; when the wait is over, both."""
    lib = FewLines()
    one = listening(lib)
    one.stop()
    assert not one.has_ended(0.02)
    assert "free" not in lib.calls
    lib.gate.set()

    assert one.has_ended(2)
    assert lib.calls[-1] == "free"


def test_a_bell_that_fails_leaves_nothing_behind():
    """The loop is closed under the thread: the thread ends, its set is freed."""
    lib = FewLines(xid(79))
    raised = threading.Event()
    threading.excepthook, before = lambda _: raised.set(), threading.excepthook
    try:
        one = events.Events(lib, lambda: 1 / 0)
        one.listen({"GPU-A": "a"})
        assert one.has_ended(2)
    finally:
        threading.excepthook = before

    assert raised.is_set()
    assert lib.calls[-1] == "free"


def test_before_the_first_device_there_is_nothing_to_wait_for():
    """A source that was never opened has no thread."""
    assert events.Events(FewLines(), lambda: None).has_ended(0)
