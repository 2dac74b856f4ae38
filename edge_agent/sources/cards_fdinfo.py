"""One DRM client: what `/proc/<pid>/fdinfo/<fd>` of an open render node says.

The keys are those of the kernel's `drm-usage-stats`: memory by region, and busy time by
engine, either as nanoseconds or (xe) as cycles of so many that went by. An engine without
`drm-engine-capacity-` is one; without a client id duplicates cannot be told apart, and the
file is not for us.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from edge_agent.sources.cards_found import VENDORS

COMPUTE: Final = frozenset({"gfx", "render", "compute", "rcs", "ccs"})
REGIONS: Final[Mapping[str, tuple[re.Pattern[str], re.Pattern[str]]]] = {
    "amdgpu": (re.compile("vram"), re.compile("vram|gtt")),
    "i915": (re.compile("local[0-9]+"), re.compile("system[0-9]+")),
    "xe": (re.compile("vram[0-9]+"), re.compile("system|gtt")),
}
"""The regions that count as GPU memory: on a discrete GPU, and on an integrated one."""

_UNITS: Final = {None: 1, "KiB": 1024, "MiB": 1024**2}
_SIZE: Final = re.compile(r"([0-9]{1,19})(?: (KiB|MiB))?")
_TIME: Final = re.compile(r"([0-9]{1,20}) ns")
_COUNT: Final = re.compile(r"[0-9]{1,20}")
_MEMORY_KEYS: Final = ("drm-resident-", "drm-memory-", "drm-total-")


class Engine(Struct, frozen=True):
    """How long an engine was busy, out of what went by (None: nanoseconds of the clock)."""

    busy: int
    passed: int | None
    capacity: int


class Client(Struct, frozen=True, kw_only=True):
    """One client of one GPU: its memory by region in bytes, its engines by name."""

    slot: str
    number: str
    driver: str
    memory: Mapping[str, int]
    engines: Mapping[str, Engine]

    def memory_bytes(self, integrated: bool) -> int | None:
        """Its memory on the GPU; None when the driver does not tell."""
        pattern = REGIONS[self.driver][1 if integrated else 0]
        found = [size for name, size in self.memory.items() if pattern.fullmatch(name)]
        return sum(found) if found else None


class NonsenseError(ValueError):
    """A client of one of our drivers whose file cannot be understood."""


def parse(text: str) -> Client | None:
    """The client a file tells of; None when it is of another driver or has no identity."""
    said: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.startswith("drm-"):
            said[key] = value.strip()
    driver, slot = said.get("drm-driver", ""), said.get("drm-pdev", "").lower()
    number = said.get("drm-client-id", "")
    if driver not in VENDORS or not slot or not number:
        return None
    return Client(
        slot=slot, number=number, driver=driver, memory=_memory(said), engines=_engines(said)
    )


def _memory(said: Mapping[str, str]) -> dict[str, int]:
    """Each region once: what is resident, else what older drivers call its memory."""
    found: dict[str, int] = {}
    for prefix in _MEMORY_KEYS:
        for key, value in said.items():
            if key.startswith(prefix):
                found.setdefault(key.removeprefix(prefix), _size(key, value))
    return found


def _size(key: str, value: str) -> int:
    hit = _SIZE.fullmatch(value)
    if hit is None:
        raise NonsenseError(f"{key}: {value[:40]!r}")
    return int(hit[1]) * _UNITS[hit[2]]


def _engines(said: Mapping[str, str]) -> dict[str, Engine]:
    found: dict[str, Engine] = {}
    for key, value in said.items():
        if key.startswith("drm-engine-capacity-"):
            continue
        if key.startswith("drm-engine-"):
            name = key.removeprefix("drm-engine-")
            found[name] = Engine(_matched(key, _TIME, value), None, _capacity(said, name))
        elif key.startswith("drm-cycles-"):
            name = key.removeprefix("drm-cycles-")
            total = f"drm-total-cycles-{name}"
            passed = _matched(total, _COUNT, said.get(total, ""))
            found[name] = Engine(_matched(key, _COUNT, value), passed, _capacity(said, name))
    return found


def _capacity(said: Mapping[str, str], name: str) -> int:
    key = f"drm-engine-capacity-{name}"
    return max(1, _matched(key, _COUNT, said.get(key, "1")))


def _matched(key: str, pattern: re.Pattern[str], value: str) -> int:
    hit = pattern.fullmatch(value)
    if hit is None:
        raise NonsenseError(f"{key}: {value[:40]!r}")
    return int(hit[1] if hit.re.groups else hit[0])
