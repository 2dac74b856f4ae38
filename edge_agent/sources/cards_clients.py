"""Who uses AMD and Intel GPUs, and how much: the DRM clients of all processes of the host.

Every open render node has a file `/proc/<pid>/fdinfo/<fd>`; each client of a GPU is counted
once, however many descriptors lead to it, for the lowest pid that holds one. How busy a
client kept an engine is the difference of two looks; a counter that goes back gives nothing
until it passes its old value. A GPU's use is that of its busiest class of engines that
compute or draw, over all clients. It is a lower bound: what a process did that ended
between two looks, or before the first look at it, is not in it.

To look at every descriptor of a host each second costs too much: a process that held no
render node is looked at in every fifth look only, each in its turn.

What cannot be seen is not taken for idle: without the host's `/proc` no process is told,
and when any process's descriptors may not be read, no GPU's use is.
"""

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from edge_agent.core import reading
from edge_agent.sources import cards_fdinfo, hostproc, sysfs

OVER_MAX: Final = 1.05
"""Two clocks are compared: a full engine may seem to be busy a little longer than time went."""

DESCRIPTORS_MAX: Final = 4_096
"""Of one process: more than any that draws or computes has, and a bound for the look."""

LOOK_AGAIN_LOOKS: Final = 5

_NODES: Final = ("/dev/dri/", "/dev/accel/")
_PID: Final = re.compile(r"[1-9][0-9]{0,9}")
_ENCODERS: Final = frozenset({"enc", "enc_1"})
_DECODERS: Final = frozenset({"dec"})

Shares = dict[str, float]
Mark = tuple[int, int]


class Use(Struct, frozen=True, kw_only=True):
    """The use of one GPU. `utilization_percent` is a reading; None before the second look."""

    utilization_percent: Any = None
    processes: tuple[reading.RawProcess, ...] = ()


class Clients:
    """All clients in a host's `/proc`; remembers their engines between two looks."""

    def __init__(self, proc_root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._proc = Path(proc_root)
        self._clock = clock
        self._marks: dict[tuple[str, str, int, str], Mark] = {}
        self._looked = False
        self._number = 0
        self._without: set[int] = set()

    def look(self, integrated: Mapping[str, bool]) -> dict[str, Use]:
        """The use of the GPUs in these PCI slots; each says whether it is integrated."""
        if not hostproc.is_hosts(self._proc):
            self._marks, self._looked = {}, False
            blind = reading.Failed("the host's processes are not visible")
            return {slot: Use(utilization_percent=blind) for slot in integrated}
        problems: list[str] = []
        marks: dict[tuple[str, str, int, str], Mark] = {}
        found: dict[str, dict[int, _Process]] = {slot: {} for slot in integrated}
        seen: set[tuple[str, str]] = set()
        for pid, client, now_ns in self._clients(problems):
            if client.slot not in found or (client.slot, client.number) in seen:
                continue
            seen.add((client.slot, client.number))
            process = found[client.slot].setdefault(pid, _Process())
            process.add(client, client.memory_bytes(integrated[client.slot]))
            for name, engine in client.engines.items():
                key = (client.slot, client.number, pid, name)
                share, marks[key] = _share(self._marks.get(key), engine, now_ns)
                if share is not None:
                    process.shares[name] += share
        is_second, self._marks, self._looked = self._looked, marks, True
        return {
            slot: Use(
                utilization_percent=_whole(list(processes.values()), is_second, problems),
                processes=tuple(one.raw(pid) for pid, one in processes.items()),
            )
            for slot, processes in found.items()
        }

    def _clients(self, problems: list[str]) -> Iterator[tuple[int, cards_fdinfo.Client, int]]:
        """Every client of our drivers, with its pid and the time of its reading."""
        try:
            with os.scandir(self._proc) as entries:
                pids = sorted(int(one.name) for one in entries if _PID.fullmatch(one.name))
        except OSError as error:
            problems.append(str(error.strerror or error))
            return
        self._number += 1
        self._without.intersection_update(pids)
        for pid in pids:
            if pid in self._without and (pid + self._number) % LOOK_AGAIN_LOOKS:
                continue
            for file in self._files(pid, problems):
                said = sysfs.text(file)
                now_ns = round(self._clock() * 1e9)
                if isinstance(said, reading.Failed):
                    problems.append(said.reason)
                if not isinstance(said, str):
                    continue
                try:
                    client = cards_fdinfo.parse(said)
                except cards_fdinfo.NonsenseError as error:
                    problems.append(f"fdinfo of pid {pid}: {error}")
                    continue
                if client is not None:
                    yield pid, client, now_ns

    def _files(self, pid: int, problems: list[str]) -> list[Path]:
        """The fdinfo files of a process's open DRM nodes."""
        folder = self._proc / str(pid)
        try:
            with os.scandir(folder / "fd") as entries:
                names = [one.name for one in islice(entries, DESCRIPTORS_MAX) if _is_node(one)]
        except PermissionError:
            problems.append("processes of other users cannot be read")
            return []
        except OSError:
            return []
        (self._without.discard if names else self._without.add)(pid)
        return [folder / "fdinfo" / name for name in names]


class _Process:
    """What the clients of one process come to."""

    def __init__(self) -> None:
        self.memory_bytes: int | None = None
        self.shares: defaultdict[str, float] = defaultdict(float)
        self.engines: set[str] = set()

    def add(self, client: cards_fdinfo.Client, memory_bytes: int | None) -> None:
        if memory_bytes is not None:
            self.memory_bytes = (self.memory_bytes or 0) + memory_bytes
        self.engines |= client.engines.keys()

    def raw(self, pid: int) -> reading.RawProcess:
        return reading.RawProcess(
            pid=pid,
            memory_used_bytes=self.memory_bytes,
            sm_utilization_percent=_busiest(self.shares, cards_fdinfo.COMPUTE),
            encoder_utilization_percent=_busiest(self.shares, _ENCODERS),
            decoder_utilization_percent=_busiest(self.shares, _DECODERS),
        )


def _is_node(descriptor: os.DirEntry[str]) -> bool:
    """Whether a descriptor leads to a DRM node; not when it was closed meanwhile."""
    try:
        return os.readlink(descriptor.path).startswith(_NODES)  # noqa: PTH115 - thousands a look
    except FileNotFoundError:
        return False


def _share(
    before: Mark | None, engine: cards_fdinfo.Engine, now_ns: int
) -> tuple[float | None, Mark]:
    """The busy share of an engine since it was last marked, and the new mark."""
    mark = (engine.busy, now_ns if engine.passed is None else engine.passed)
    if before is None:
        return None, mark
    busy, passed = mark[0] - before[0], mark[1] - before[1]
    if busy < 0 or passed < 0:
        return None, before
    return (busy / passed / engine.capacity if passed else None), mark


def _busiest(shares: Mapping[str, float], engines: frozenset[str]) -> float | None:
    """The busiest of these engines in percent; nothing when that cannot be."""
    found = [share for name, share in shares.items() if name in engines]
    if not found or max(found) > OVER_MAX:
        return None
    return 100 * min(1.0, max(found))


def _whole(processes: list[_Process], is_second: bool, problems: list[str]) -> Any:
    if problems:
        return reading.Failed(problems[0])
    if not is_second:
        return None
    total: defaultdict[str, float] = defaultdict(float)
    for one in processes:
        for name, share in one.shares.items():
            total[name] += share
    uses_some = any(one.engines & cards_fdinfo.COMPUTE for one in processes)
    return _busiest(total, cards_fdinfo.COMPUTE) if uses_some else 0.0
