"""Nodes whose GPUs are read through NVIDIA's own Python binding, without a GPU.

The library behind the binding is the stand-in that the tests use: C source in
`tests/support/nvml`, compiled when it is wanted, so this needs the source tree and a C
compiler. All that is above the library is what runs on a real node.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ctl import errors, pipeline

SOURCE: Final = Path(__file__).parents[2] / "tests" / "support" / "nvml" / "standin.py"
NODES: Final[Mapping[str, Sequence[str]]] = {
    "edge-03": ("l4", "l4"),
    "edge-05": ("a10g",) * 4,
}
"""The nodes of the story that get real-looking GPUs: their profiles."""


class Fleet:
    """The stand-in machines, each a folder that its agent's environment names."""

    def __init__(self, folder: Path) -> None:
        library = _load()
        try:
            self._nodes = {
                name: library.Node(folder / name, [library.Gpu(profile) for profile in profiles])
                for name, profiles in NODES.items()
            }
        except library.BuildError as error:
            raise errors.CtlError(f"--nvml: the stand-in library was not built: {error}") from error
        self._empty = folder / "dev"
        self._empty.mkdir(exist_ok=True)

    def start(self, pipe: pipeline.Pipeline) -> None:
        """One agent a node, as on a real one: its name, its spool, the library in its path."""
        for name, node in self._nodes.items():
            pipe.start_agents(
                f"agent-{name}",
                node=name,
                source={
                    "source": {"kind": "nvml"},
                    "host": {"dev": str(self._empty)},
                },
                environment=node.environment,
            )

    def fault(self, *, node: str, fault: str, **how: Any) -> None:
        """Do to a stand-in what the line of the control file would do to a simulated node."""
        gpu = how.get("gpu", "*")
        if fault == "load":
            self._nodes[node].say(f"set {gpu} utilization.gpu_pct {how['utilization_percent']}")
        elif fault == "xid":
            self._nodes[node].say(f"xid {gpu} {how['xid']}", f"lost {gpu}")
        else:
            raise errors.CtlError(f"the stand-in has no fault {fault!r}")


def _load() -> ModuleType:
    if not SOURCE.is_file():
        raise errors.CtlError("--nvml needs the source tree: tests/support/nvml is not there")
    spec = importlib.util.spec_from_file_location("windvane_nvml_standin", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
