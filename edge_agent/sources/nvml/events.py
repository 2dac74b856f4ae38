"""The thread that waits for what NVML has to tell: XIDs.

It blocks in the library, a few seconds at a time, so that it ends when it is told to; what it
hears is put into a bounded queue and the bell is rung. The event set belongs to the thread,
which frees it: freeing it from outside, or letting the library go, would pull it away under a
wait. Who wants to do that stops the thread and sees that it has ended.
"""

import collections
import contextlib
import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from edge_agent.core import reading
from edge_agent.sources.nvml import codes

XID: Final = 0x8
WAIT_MS: Final = 5000
PAUSE_S: Final = 1.0
KEPT_MAX: Final = 10_000
NO_INSTANCE: Final = 0xFFFFFFFF


class Events:
    """Listens on the devices it is given, from `listen` until `stop`."""

    def __init__(self, lib: codes.Library, wake: Callable[[], None]) -> None:
        self._lib = lib
        self._wake = wake
        self._heard: collections.deque[reading.RawEvent] = collections.deque()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def listen(self, devices: Mapping[str, Any]) -> None:
        """Hear of these devices, handles by UUID; the thread of before has ended."""
        event_set = codes.tried(self._lib, "nvmlEventSetCreate")
        if event_set is None:
            return
        for handle in devices.values():
            codes.tried(self._lib, "nvmlDeviceRegisterEvents", handle, XID, event_set)
        uuids = {_address(handle): uuid for uuid, handle in devices.items()}
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._work,
            args=(event_set, uuids, self._stop),
            name="nvml-events",
            daemon=True,
        )
        self._thread.start()

    def news(self) -> Sequence[reading.RawEvent]:
        """What was heard since the last call."""
        found: list[reading.RawEvent] = []
        with contextlib.suppress(IndexError):
            while True:
                found.append(self._heard.popleft())
        return found

    def stop(self) -> None:
        """Let the thread end; does not wait for it."""
        self._stop.set()

    def has_ended(self, limit_s: float) -> bool:
        """Whether the thread has, or does within the limit."""
        if self._thread is not None:
            self._thread.join(limit_s)
            if not self._thread.is_alive():
                self._thread = None
        return self._thread is None

    def _work(self, event_set: Any, uuids: Mapping[Any, str], stop: threading.Event) -> None:
        try:
            self._listen(event_set, uuids, stop)
        finally:
            codes.tried(self._lib, "nvmlEventSetFree", event_set)

    def _listen(self, event_set: Any, uuids: Mapping[Any, str], stop: threading.Event) -> None:
        while not stop.is_set():
            if len(self._heard) >= KEPT_MAX:  # what is not taken here waits in the driver
                stop.wait(PAUSE_S)
                continue
            try:
                event = self._lib.nvmlEventSetWait_v2(event_set, WAIT_MS)
            except self._lib.NVMLError as error:
                if error.value != codes.TIMEOUT and stop.wait(PAUSE_S):
                    break  # a lost GPU, or a library that is gone: not a loop that burns
                continue
            if event.eventType == XID:
                self._hear(event, uuids.get(_address(event.device)))

    def _hear(self, event: Any, uuid: str | None) -> None:
        where = {"GPU": event.gpuInstanceId, "compute": event.computeInstanceId}
        known = [f"{kind} instance {n}" for kind, n in where.items() if n != NO_INSTANCE]
        self._heard.append(
            reading.RawEvent(
                event="xid",
                gpu_uuid=uuid,
                xid=int(event.eventData),
                detail=f"MIG {', '.join(known)}" if known else "",
            )
        )
        self._wake()


def _address(handle: Any) -> Any:
    """What two handles of one device have in common; as objects they differ."""
    if isinstance(handle, ctypes._Pointer):  # noqa: SLF001 - ctypes gives it no public name
        return ctypes.cast(handle, ctypes.c_void_p).value
    return handle
