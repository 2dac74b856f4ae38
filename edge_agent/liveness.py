"""Whether the agent lives, for whoever would restart it: Kubernetes or systemd.

It lives while its event loop turns and each node's ticks reach the disk. A GPU, a driver
or a broker that hangs does not end its life: a restart would not help, and would cost what
only this process knows. A disk that takes nothing for `GRACE_S` does.

It is ready while no source needs a new process to go on.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Final

BEAT_S: Final = 5.0
BEATS_MISSED_S: Final = 20.0
GRACE_S: Final = 60.0


class Liveness:
    """Pulse of one process; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat_s = clock()
        self._due_s: dict[str, float] = {}
        self._unready: dict[str, str] = {}

    def beat(self) -> None:
        """The event loop turns."""
        self._beat_s = self._clock()

    def ticked(self, node: str, wait_s: float) -> None:
        """A tick of this node is on disk; the next is due in `wait_s`."""
        self._due_s[node] = self._clock() + wait_s

    def forget(self, node: str) -> None:
        """The agent of `node` is not running now; who watches it will start it anew."""
        self._due_s.pop(node, None)
        self._unready.pop(node, None)

    def readiness(self, node: str, trouble: str) -> None:
        """What keeps this node from being ready; nothing when it is."""
        self._unready.pop(node, None)
        if trouble:
            self._unready[node] = trouble

    def trouble(self) -> str:
        """Why a restart would help; empty while it would not."""
        now_s = self._clock()
        if now_s - self._beat_s > BEATS_MISSED_S:
            return f"the event loop stands still for {now_s - self._beat_s:.0f} s"
        for node, due_s in list(self._due_s.items()):
            if now_s - due_s > GRACE_S:
                return f"{node}: no tick reached the disk for {now_s - due_s:.0f} s"
        return ""

    def unready(self) -> str:
        """Why this agent cannot do its work; empty when it can."""
        return "; ".join(f"{node}: {text}" for node, text in sorted(self._unready.items()))


async def keep_beating(life: Liveness, environ: Mapping[str, str] = os.environ) -> None:
    """Beat until cancelled, and tell systemd when it asked to be told (sd_notify(3))."""
    address = environ.get("NOTIFY_SOCKET", "")
    _notify(address, "READY=1")
    try:
        while True:
            life.beat()
            if not life.trouble():
                _notify(address, "WATCHDOG=1")
            await asyncio.sleep(BEAT_S)
    finally:
        _notify(address, "STOPPING=1")


def _notify(address: str, text: str) -> None:
    """One datagram to systemd; a manager that does not listen is no trouble of ours."""
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        try:
            out.connect("\0" + address[1:] if address.startswith("@") else address)
            out.send(text.encode())
        except OSError:
            return
