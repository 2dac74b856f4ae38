"""A stand-in for NVIDIA's `libnvidia-ml.so.1`: machines without a GPU that answer as real ones.

The library is our own C (folder `src`), built once with gcc and kept in the cache. A
`Node` is one stand-in machine: a folder with its GPUs, a control file that takes commands
while the library runs, and counters of the calls. A process plays a node when it is
started with `node.environment`; this process does after `load(node)`. README.md has the
keys of a GPU and the commands.
"""

import ctypes
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
SOURCES: Final = HERE / "src"
PROFILES: Final = HERE / "profiles"
NODES: Final = HERE / "nodes"
LIBRARY: Final = "libnvidia-ml.so.1"
FOLDER_VARIABLE: Final = "WINDVANE_NVML_STANDIN"
FLAGS: Final = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden"),
    *("-pthread", f"-Wl,-soname,{LIBRARY}"),
)
NAME_BYTES: Final = 72
RECORD_BYTES: Final = NAME_BYTES + 8


class BuildError(Exception):
    """The library could not be built; the text is the compiler's."""


class NodeError(ValueError):
    """A machine or a command that the library does not understand."""


def profiles() -> tuple[str, ...]:
    """The GPUs that are known, by id."""
    return tuple(sorted(path.stem for path in PROFILES.glob("*.txt")))


@functools.cache
def profile(name: str) -> Mapping[str, str]:
    """All lines of a profile as they stand, `@sample key` included; processes left out."""
    if name not in profiles():
        raise NodeError(f"no profile {name}; there are {', '.join(profiles())}")
    return dict(_pairs((PROFILES / f"{name}.txt").read_text().splitlines()))


def _pairs(lines: Sequence[str]) -> list[tuple[str, str]]:
    cut = [line.partition("=") for line in lines if not line.startswith("#")]
    return [
        (key.strip(), value.strip())
        for key, equals, value in cut
        if equals and not key.partition(" ")[2].startswith("process")
    ]


def build(folder: Path | None = None) -> Path:
    """The library, built now if these sources have not been built before."""
    sources = sorted(SOURCES.iterdir())
    digest = hashlib.sha256("\0".join(FLAGS).encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    if folder is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "windvane" / f"nvml-standin-{digest.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / LIBRARY
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one builds, the others of pytest-xdist wait
        if not library.exists():
            _compile([s for s in sources if s.suffix == ".c"], library)
    return library


def _compile(sources: Sequence[Path], library: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        raise BuildError("gcc is not on this machine")
    made = library.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [compiler, *FLAGS, "-o", made, *sources], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        made.unlink(missing_ok=True)
        raise BuildError(done.stderr)
    made.replace(library)


@dataclass(frozen=True)
class Gpu:
    """One GPU of a node: a profile, the state it starts in, and what differs from it.

    What stays None is the profile's. The second GPU of a profile gets an identity of its
    own, and every GPU but the first its own address and minor number.
    """

    profile: str
    sample: str | None = None
    uuid: str | None = None
    serial: str | None = None
    bus_id: str | None = None
    set: Mapping[str, str] = field(default_factory=dict)

    def lines(self, index: int, *, is_repeated: bool) -> list[str]:
        """Its section of the machine file."""
        made = {"uuid": _uuid(self.profile, index), "serial": f"99{index:011d}"}
        placed = {"pci.bus_id": _address(index), "minor_number": str(index)}
        own = {"uuid": self.uuid, "serial": self.serial, "pci.bus_id": self.bus_id}
        values = {
            **{key: value for key, value in made.items() if is_repeated and self._has(key)},
            **{key: value for key, value in placed.items() if index > 0 and self._has(key)},
            **{key: value for key, value in own.items() if value is not None},
            **self.set,
        }
        start = {"profile": self.profile} | ({"sample": self.sample} if self.sample else {})
        return ["[gpu]", *(f"{key} = {value}" for key, value in (start | values).items())]

    def _has(self, key: str) -> bool:
        return profile(self.profile).get(key, "unsupported") != "unsupported"


def _uuid(name: str, index: int) -> str:
    text = hashlib.sha256(f"{name} {index}".encode()).hexdigest()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def _address(index: int) -> str:
    return f"{index >> 7:08X}:{(index & 0x7F) + 0x20:02X}:00.0"


def whole_node(name: str) -> tuple[Gpu, ...]:
    """The GPUs of a machine that was seen as a whole (`nodes/<name>.txt`)."""
    sections = (NODES / f"{name}.txt").read_text().split("[gpu]\n")[1:]
    found = [dict(_pairs(section.splitlines())) for section in sections]
    return tuple(Gpu(values.pop("profile"), set=values) for values in found)


class Node:
    """One stand-in machine: a folder that the library reads."""

    def __init__(
        self,
        folder: Path,
        gpus: Sequence[Gpu],
        *,
        driver_version: str | None = None,
        cuda_version: str | None = None,
    ) -> None:
        self.folder = folder
        self.library = build()
        self.are_problems_known = False
        self._c = ctypes.CDLL(str(self.library))
        folder.mkdir(parents=True, exist_ok=True)
        first = profile(gpus[0].profile) if gpus else {}
        system = {
            "driver_version": driver_version or first.get("driver_version", "580.105.08"),
            "cuda_version": cuda_version or first.get("cuda_version", "13.0"),
            "profiles": str(PROFILES),
            "started_ns": str(time.monotonic_ns()),
        }
        lines = [f"{key} = {value}" for key, value in system.items()]
        for index, gpu in enumerate(gpus):
            earlier = {one.profile for one in gpus[:index]}
            lines += gpu.lines(index, is_repeated=gpu.profile in earlier)
        (folder / "machine").write_text("\n".join(lines) + "\n")
        for name in ("control", "problems"):
            (folder / name).write_text("")
        self._check()

    def _check(self) -> None:
        problem = ctypes.create_string_buffer(4096)
        if self._c.standin_check(str(self.folder).encode(), problem, len(problem)) != 0:
            raise NodeError(problem.value.decode())

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to have in its environment to play this machine."""
        paths = [str(self.library.parent), os.environ.get("LD_LIBRARY_PATH", "")]
        return {
            "LD_LIBRARY_PATH": ":".join(path for path in paths if path),
            FOLDER_VARIABLE: str(self.folder),
        }

    def say(self, *commands: str) -> None:
        """Give commands to the library of every process that plays this machine."""
        text = "".join(f"{command}\n" for command in commands).encode()
        error = self._c.standin_say(str(self.folder).encode(), text)
        if error != 0:
            raise OSError(error, os.strerror(error))

    def calls(self) -> dict[str, int]:
        """How often each symbol was called so far, by all processes."""
        path = self.folder / "calls"
        raw = path.read_bytes() if path.exists() else b""
        records = [raw[i : i + RECORD_BYTES] for i in range(0, len(raw), RECORD_BYTES)]
        counts = {
            one[:NAME_BYTES].rstrip(b"\0").decode(): int.from_bytes(one[NAME_BYTES:], "little")
            for one in records
        }
        return {name: count for name, count in counts.items() if count}

    def problems(self) -> list[str]:
        """The commands that were not understood, with the reason first; a test that looks
        knows of them.
        """
        self.are_problems_known = True
        return (self.folder / "problems").read_text().splitlines()


def load(node: Node) -> None:
    """Make pynvml in this process play the node, from the node's beginning."""
    import pynvml

    library = ctypes.CDLL(str(node.library))
    library.standin_open(str(node.folder).encode())
    _forget(pynvml)
    pynvml.nvmlLib = library


reload = load
"""Another node, or the same one from its beginning: the library forgets what it played."""


def unload() -> None:
    """Leave pynvml as in a process that has no NVIDIA library."""
    import pynvml

    if pynvml.nvmlLib is not None and hasattr(pynvml.nvmlLib, "standin_open"):
        pynvml.nvmlLib.standin_open(None)
    _forget(pynvml)


def _forget(pynvml: object) -> None:
    """Pynvml keeps the library and its functions for the life of the process."""
    pynvml.nvmlLib = None
    pynvml._nvmlLib_refcount = 0
    pynvml._nvmlGetFunctionPointer_cache.clear()
