"""A recording of utilisation, replayed: each row once, at the speed that was asked for.

A CSV (gzipped or not) with three columns found by their names: `value` (percent), one
whose name contains `timestamp` (unix seconds), and the remaining one, which names the
series. Each series is one GPU `REC-<id>`. The series, in order of their names, are
dealt out to the nodes of the fleet, so each row belongs to one node. All rows of one
moment are one observation, at `start + (t - t0) / speed`.

The file is parsed once per process into three arrays (about 18 bytes a row), whatever
the number of nodes that replay it.
"""

import array
import csv
import functools
import gzip
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Final, cast

from msgspec import Struct

from edge_agent import config
from edge_agent.core import reading
from edge_agent.errors import SourceError
from wire.sample import GpuInventory

OBSERVATIONS_PER_READ_MAX: Final = 500
_LOADING: Final = threading.Lock()


class Trace(Struct, frozen=True):
    """Rows in order of time: when, which series, how much; and how many were no rows."""

    times_s: Sequence[float]
    series: Sequence[int]
    values: Sequence[float]
    names: tuple[str, ...]
    skipped: int


class Recorded:
    """The part of a recording that belongs to one node."""

    name = "recorded"

    def __init__(
        self,
        settings: config.Recorded,
        *,
        index: int,
        node_count: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._index = index
        self._node_count = node_count
        self._clock = clock
        self._trace: Trace | None = None
        self._moments: Iterator[tuple[float, list[int]]] = iter(())
        self._next: tuple[float, list[int]] | None = None
        self._started_s = 0.0
        self.finished = False
        self.rows = 0
        self.skipped = 0

    def available(self) -> reading.Availability:
        """Whether the file can be read; it is parsed here, the first time."""
        try:
            with _LOADING:  # else each node of a fleet would parse the file at the same time
                trace = load(self._settings.file)
        except SourceError as error:
            return reading.Availability(state="no device", detail=str(error))
        if self._trace is None:
            self._begin(trace)
        mine = range(self._index, len(trace.names), self._node_count)
        return reading.Availability(
            state="yes",
            detail=f"{len(mine)} of {len(trace.names)} series",
            gpus=tuple(GpuInventory(uuid=_uuid(trace, i), vendor="recorded") for i in mine),
        )

    def read(self) -> tuple[reading.Observation, ...]:
        """The observations that are due since the last read."""
        trace = self._trace
        if trace is None:
            return ()
        due: list[reading.Observation] = []
        now_s = self._clock()
        while self._next is not None and len(due) < OBSERVATIONS_PER_READ_MAX:
            at_s = self._started_s + (self._next[0] - trace.times_s[0]) / self._settings.speed
            if at_s > now_s:
                break
            due += _observations(trace, self._next[1], int(at_s * 1000))
            self.rows += len(self._next[1])
            self._next = next(self._moments, None)
        self.finished = self._next is None
        return tuple(due)

    def close(self) -> None:
        """Let go of the recording."""
        self._trace = None

    def _begin(self, trace: Trace) -> None:
        self._trace = trace
        self.skipped = trace.skipped
        self._started_s = self._clock()
        mine = array.array(
            "I",
            (
                row
                for row, series in enumerate(trace.series)
                if series % self._node_count == self._index
            ),
        )
        self._moments = (
            (at_s, list(rows)) for at_s, rows in groupby(mine, key=lambda row: trace.times_s[row])
        )
        self._next = next(self._moments, None)
        self.finished = self._next is None


@functools.lru_cache(maxsize=2)
def load(file: str) -> Trace:
    """The recording in `file`; raises `SourceError`."""
    try:
        with _text(Path(file)) as lines:
            return _parse(file, lines)
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"recording {file}: {error}") from error


def _text(file: Path) -> IO[str]:
    if file.suffix == ".gz":
        return cast("IO[str]", gzip.open(file, "rt", encoding="utf-8", newline=""))
    return file.open(encoding="utf-8", newline="")


def _parse(file: str, lines: IO[str]) -> Trace:
    rows = csv.reader(lines)
    header = next(rows, [])
    times_at = [i for i, name in enumerate(header) if "timestamp" in name]
    values_at = [i for i, name in enumerate(header) if name == "value"]
    rest = [i for i in range(len(header)) if i not in (*times_at, *values_at)]
    if not (len(times_at) == len(values_at) == len(rest) == 1):
        raise SourceError(
            f"recording {file}: columns must be `value`, one with `timestamp` in its name and "
            f"one that names the series, not {header}"
        )
    times_s, values, found = array.array("d"), array.array("d"), array.array("I")
    ids: dict[str, int] = {}
    skipped = 0
    for row in rows:
        try:
            at_s, value, name = float(row[times_at[0]]), float(row[values_at[0]]), row[rest[0]]
        except (ValueError, IndexError):
            skipped += 1
            continue
        if not (math.isfinite(at_s) and name):
            skipped += 1
            continue
        times_s.append(at_s)
        values.append(value)
        found.append(ids.setdefault(name, len(ids)))
    return _in_order(times_s, values, found, tuple(ids), skipped)


def _in_order(
    times_s: "array.array[float]",
    values: "array.array[float]",
    found: "array.array[int]",
    ids: tuple[str, ...],
    skipped: int,
) -> Trace:
    """Rows by time, series numbered by the order of their names."""
    names = sorted(ids)
    number_of = {name: number for number, name in enumerate(names)}
    renumbered = [number_of[name] for name in ids]
    order: Sequence[int] = range(len(times_s))
    if any(times_s[i] > times_s[i + 1] for i in range(len(times_s) - 1)):
        order = sorted(order, key=times_s.__getitem__)
    return Trace(
        times_s=array.array("d", (times_s[i] for i in order)),
        series=array.array("H", (renumbered[found[i]] for i in order)),
        values=array.array("d", (values[i] for i in order)),
        names=tuple(names),
        skipped=skipped,
    )


def _observations(
    trace: Trace, rows: Sequence[int], ts_unix_ms: int
) -> Iterator[reading.Observation]:
    """One observation for a moment; more only when a series speaks more than once in it."""
    gpus: dict[str, reading.RawGpu] = {}
    for row in rows:
        uuid = _uuid(trace, trace.series[row])
        if uuid in gpus:
            yield _observation(gpus, ts_unix_ms)
            gpus = {}
        gpus[uuid] = reading.RawGpu(uuid=uuid, readings={"utilization_percent": trace.values[row]})
    yield _observation(gpus, ts_unix_ms)


def _observation(gpus: dict[str, reading.RawGpu], ts_unix_ms: int) -> reading.Observation:
    return reading.Observation(ts_unix_ms=ts_unix_ms, gpus=tuple(gpus.values()), complete=False)


def _uuid(trace: Trace, number: int) -> str:
    return f"REC-{trace.names[number]}"[:96]
