"""What a tick costs beside the library's own calls.

One tick of eight GPUs, from the first call to finished records, against the bare calls
that this tick makes: the same functions of the same binding with the same arguments, in a
loop that throws the results away. Both in one process, alternating, so that whatever else
the machine does meets both. The stand-in's calls cost next to nothing (`ratio`); a driver's
go into the kernel, and `ratio_at_5us` and `ratio_at_20us` show what that makes of it.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

from edge_agent.core import cadence, record
from edge_agent.sources.nvml import source as nvml
from support.nvml import standin

GPUS = 8
ROUNDS = 60
TICKS_A_ROUND = 10
PROFILE = "h100-80gb-hbm3"
LIMITS = cadence.Limits(tick_ms=1000, idle_ms=4000, asleep_ms=30_000)

Call = tuple[Callable[..., Any], tuple[Any, ...]]


class Listening:
    """The binding, with the calls noted while `calls` is a list.

    A call of the C function itself is noted as the binding's function of that name.
    """

    def __init__(self) -> None:
        self.calls: list[Call] | None = None
        self.nvmlLib = Underneath(self)
        self.fields: tuple[Any, ...] = ()

    def __getattr__(self, name: str) -> Any:
        found = getattr(pynvml, name)
        if not callable(found) or not name.startswith("nvml"):
            return found

        def noted(*args: Any) -> Any:
            if name == "nvmlDeviceGetFieldValues":
                self.fields = args[1]
            self.note(found, *args)
            return found(*args)

        return noted

    def note(self, function: Callable[..., Any], *args: Any) -> None:
        if self.calls is not None:
            self.calls.append((function, args))


class Underneath:
    """The loaded library, of a `Listening`."""

    def __init__(self, above: Listening) -> None:
        self._above = above

    def __getattr__(self, symbol: str) -> Any:
        found = getattr(pynvml.nvmlLib, symbol)
        name, _, version = symbol.partition("_v")
        function = getattr(pynvml, name)

        def noted(handle: Any, *args: Any) -> Any:
            more: tuple[Any, ...] = tuple(one for one in args if isinstance(one, int))
            if name == "nvmlDeviceGetFieldValues":
                more = (self._above.fields,)
            elif name == "nvmlDeviceGetSamples":
                more = (args[0], args[1].value)
            elif name == "nvmlDeviceGetTemperatureV":
                more = (0,)
            elif name == "nvmlDeviceGetMemoryInfo":
                more = (pynvml.nvmlMemory_v2,) if version else ()
            self._above.note(function, handle, *more)
            return found(handle, *args)

        return noted


class Ticks:
    """The source and the decision about what it read, as the sampler runs them."""

    def __init__(self, lib: Any) -> None:
        self.source = nvml.Nvml(lib)
        self.found = self.source.available()
        assert self.found.state == "yes", self.found
        self.state = record.State(pace=cadence.Pace(wait_ms=1000))
        self.now_ms = 0

    def tick(self) -> record.Step:
        self.now_ms += 1000
        look = record.Look(
            source="nvml", observations=self.source.read(), inventory=self.found.gpus
        )
        moment = record.Moment(now_ms=self.now_ms, now_unix_ms=1_790_000_000_000 + self.now_ms)
        step = record.step(self.state, [look], moment, LIMITS)
        self.state = step.state
        return step


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="windvane-bench-") as folder:
        node = standin.Node(Path(folder), [standin.Gpu(PROFILE) for _ in range(GPUS)])
        standin.load(node)
        calls = calls_of_a_tick()
        plain = Ticks(pynvml)
        figures = compare(plain, calls)
        figures["calls_per_tick"] = len(calls)
        for cost_us in (5, 20):
            node.say(f"cost * * {cost_us}")
            figures[f"ratio_at_{cost_us}us"] = compare(plain, calls)["ratio"]
        plain.source.close()
    print(json.dumps({"name": "sampler", "figures": figures}))


def calls_of_a_tick() -> list[Call]:
    """What one steady tick calls, the slow readings aside as they are in most ticks."""
    lib = Listening()
    ticks = Ticks(lib)
    for _ in range(5):
        ticks.tick()
    lib.calls = []
    ticks.tick()
    calls, lib.calls = lib.calls, None
    ticks.source.close()
    return calls


def compare(ticks: Ticks, calls: list[Call]) -> dict[str, float]:
    tick_us, bare_us = [], []
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        for _ in range(TICKS_A_ROUND):
            ticks.tick()
        between = time.process_time_ns()
        for _ in range(TICKS_A_ROUND):
            replay(calls)
        ended = time.process_time_ns()
        tick_us.append((between - started) / TICKS_A_ROUND / 1000)
        bare_us.append((ended - between) / TICKS_A_ROUND / 1000)
    return {
        "tick_us": round(statistics.median(tick_us), 1),
        "bare_calls_us": round(statistics.median(bare_us), 1),
        "ratio": round(statistics.median(tick_us) / statistics.median(bare_us), 2),
    }


def replay(calls: list[Call]) -> None:
    for function, args in calls:
        try:
            function(*args)
        except pynvml.NVMLError:
            continue


if __name__ == "__main__":
    sys.exit(main())
