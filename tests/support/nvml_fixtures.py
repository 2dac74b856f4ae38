"""Fixture for a stand-in NVIDIA library played by this process, through the real pynvml."""

import os
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from edge_agent.sources.nvml import events
from support.nvml import standin as nvml

Machines = Callable[..., nvml.Node]
"""`standin(Gpu(...), Gpu(...), driver_version=..., cuda_version=...)` gives a loaded Node."""


def settle(older: Collection[threading.Thread]) -> None:
    """Until the threads of sources that were closed have ended and let the library go; not those
    that were there before.
    """
    for thread in threading.enumerate():
        if thread.name.startswith("nvml") and thread not in older:
            thread.join(5.0)
            assert not thread.is_alive(), thread


@pytest.fixture(scope="session")
def nvml_library() -> Path:
    """The stand-in, built; without a compiler that fails in CI and skips elsewhere."""
    try:
        return nvml.build()
    except nvml.BuildError as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason))
        pytest.skip(f"the NVML stand-in cannot be built: {reason}")


@pytest.fixture
def standin(
    nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machines]:
    """Make machines; the one made last is the one that pynvml talks to."""
    made: list[nvml.Node] = []
    older = set(threading.enumerate())
    monkeypatch.setattr(events, "WAIT_MS", 20)

    def make(
        *gpus: nvml.Gpu, driver_version: str | None = None, cuda_version: str | None = None
    ) -> nvml.Node:
        node = nvml.Node(
            tmp_path / f"machine-{len(made)}",
            gpus,
            driver_version=driver_version,
            cuda_version=cuda_version,
        )
        nvml.load(node)
        made.append(node)
        return node

    yield make
    for node in made:
        node.say("release")
    settle(older)
    nvml.unload()
    unknown = [line for node in made if not node.are_problems_known for line in node.problems()]
    assert unknown == [], "commands that the stand-in did not understand"
