"""Child processes that never outlive us.

Each child is the leader of a process group of its own, so that Ctrl-C reaches only us
and we end the children in the right order; it writes its output to a file; and the
kernel ends it when we are killed ourselves. Only processes started here are ever
signalled.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ctl import errors

STOP_TIMEOUT_S: Final = 15.0
TAIL_LINES: Final = 15
_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)


class Child:
    """One program: `argv` run in `folder`, output appended to `folder/<name>.log`."""

    def __init__(
        self, name: str, argv: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.argv = list(argv)
        self.log_path = folder / f"{name}.log"
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id; only while started."""
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, or None while it runs or before it was started."""
        return None if self._process is None else self._process.poll()

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; raises `CtlError` when the program cannot be run."""
        assert not self.running
        with self.log_path.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    self.argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self._env,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,  # noqa: PLW1509 - one libc call, no locks
                )
            except OSError as error:
                raise errors.CtlError(f"{self.name}: cannot run {self.argv[0]}: {error}") from error

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int | None:
        """SIGTERM, then SIGKILL to its whole group; returns the exit code."""
        if self._process is None:
            return None
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # what it left behind
        return self._process.wait()

    def kill(self) -> None:
        """SIGKILL to its group, as a power cut would."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of its output."""
        if not self.log_path.exists():
            return ""
        text = self.log_path.read_bytes().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def must_run(self) -> None:
        """Raise `CtlError` with the end of its log if it has ended by itself."""
        if not self.running:
            raise errors.CtlError(
                f"{self.name} ended with code {self.returncode}; the end of its log:\n{self.tail()}"
            )


def wait_until(
    what: str, ready: Callable[[], bool], *, timeout_s: float, children: Sequence[Child]
) -> None:
    """Poll `ready` until it is true; a child that ends meanwhile, or time, is an error."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        for child in children:
            child.must_run()
        if time.monotonic() > deadline:
            tails = "\n".join(f"--- {c.name}\n{c.tail()}" for c in children)
            raise errors.CtlError(f"{what}: not ready after {timeout_s:.0f} s\n{tails}")
        time.sleep(0.1)


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
