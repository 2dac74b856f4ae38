"""From a process of the host to its pod, through the host's `/proc`. No Kubernetes needed.

Drivers tell pids of the host. They mean something here only if `proc` is the host's (see
`hostproc`; `/proc/1/ns/pid` may be read by root only, and the inode of `/proc/self/ns/pid`
says nothing of a `/proc` mounted elsewhere).
Without it every owner is `unknown`: a pid of the host may be one of our own container's, and
nothing is taken for the agent's pod.

Homes are remembered by pid and start time, so a pid that was given again is looked up anew.
`stat` and `cgroup` are read through one descriptor of the process's folder, which never
leads to another process. What has ended, a zombie too (v1 moves it to the root), is `gone`.
A file that may not be read leaves what is known.

The name is the kernel's `comm`: 15 characters, always readable, and never an argument. The
command line may be rewritten by the process and then has secrets in its first word.

The kubelet's pod-resources socket is not asked: it tells which pod was *given* a device, by
the pod's name, not by its UID, which is what records hold; and it speaks gRPC.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from edge_agent import config
from edge_agent.core import cgroup, checks, procstat, reading
from edge_agent.sources import hostproc

HOMES_MAX: Final = 4_096
READ_BYTES_MAX: Final = 65_536
_HOST: Final = config.Host()
_UNKNOWN: Final = cgroup.Home("unknown")
_GONE: Final = cgroup.Home("gone")


class Pods:
    """The owners of processes, `reading.Owners`; one for each source, with memory."""

    def __init__(self, host: config.Host = _HOST, *, homes_max: int = HOMES_MAX) -> None:
        self._proc = host.proc
        self._homes_max = homes_max
        self._homes: dict[tuple[int, int], cgroup.Home] = {}
        self._is_host = False

    def __call__(self, processes: Sequence[reading.RawProcess]) -> tuple[reading.RawProcess, ...]:
        """The same processes with owner, pod, container and name, as far as they are known."""
        if not processes or not self._sees_host():
            return tuple(processes)
        return tuple(self._owned(one) for one in processes)

    def _sees_host(self) -> bool:
        """Whether these are the host's processes."""
        return self._is_host or self._prove()

    def _prove(self) -> bool:
        self._is_host = hostproc.is_hosts(self._proc)
        return self._is_host

    def _owned(self, process: reading.RawProcess) -> reading.RawProcess:
        if checks.pid(process.pid) is None or process.owner != "unknown" or process.pod_uid:
            return process
        stat, home = self._known(process.pid) or self._met(process.pid)
        return replace(
            process,
            owner=home.owner,
            pod_uid=home.pod_uid,
            container_id=home.container_id,
            name=process.name or (stat and stat.name) or None,
        )

    def _known(self, pid: int) -> tuple[procstat.Stat, cgroup.Home] | None:
        """A process that was met before: one read shows that it is still the same."""
        with suppress(OSError):
            stat = procstat.parse(_read(f"{self._proc}/{pid}/stat"))
            home = None if stat is None else self._homes.get((pid, stat.start_ticks))
            if stat is not None and home is not None:
                return stat, home
        return None

    def _met(self, pid: int) -> tuple[procstat.Stat | None, cgroup.Home]:
        """A process that is new, through its folder, which never leads to another."""
        try:
            folder = os.open(f"{self._proc}/{pid}", os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, ProcessLookupError):
            return None, _GONE if self._prove() else _UNKNOWN
        except OSError:
            return None, _UNKNOWN
        try:
            return self._look(folder)
        finally:
            os.close(folder)

    def _look(self, folder: int) -> tuple[procstat.Stat | None, cgroup.Home]:
        """What the files in a process's folder tell."""
        stat: procstat.Stat | None = None
        try:
            stat = procstat.parse(_read("stat", folder))
            if stat is None:
                return None, _UNKNOWN
            key = (stat.pid, stat.start_ticks)
            home = self._homes.pop(key, None)  # put back below, as the newest
            if home is None:
                home = _GONE if stat.has_ended else self._home(folder)
        except (FileNotFoundError, ProcessLookupError):
            return stat, _GONE
        except OSError:
            return stat, _UNKNOWN
        if home.owner in ("pod", "host"):
            self._homes[key] = home
            if len(self._homes) > self._homes_max:
                del self._homes[next(iter(self._homes))]
        return stat, home

    def _home(self, folder: int) -> cgroup.Home:
        said = _read("cgroup", folder)
        of_process_1 = ""
        with suppress(OSError):
            of_process_1 = _read(f"{self._proc}/1/cgroup")
        return cgroup.parse(said, of_process_1)


def _read(file: str, folder: int | None = None) -> str:
    """The whole of a small file."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
    try:
        return os.read(descriptor, READ_BYTES_MAX).decode(errors="replace")
    finally:
        os.close(descriptor)
