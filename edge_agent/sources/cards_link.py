"""The PCIe link between a card and the host.

Some cards carry a switch of their own (all of Intel's discrete ones, AMD's since Navi).
What the GPU itself reports is then the link inside the card: Intel's says 2.5 GT/s x1
whatever the slot gives. So the link is read where the last bridge of the GPU's own vendor
faces the host; a root port of the same vendor tells the same link from its other end.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from edge_agent.core import reading
from edge_agent.sources import sysfs

VENDOR_IDS: Final[Mapping[str, str]] = {"amd": "0x1002", "intel": "0x8086"}
GENERATIONS: Final[Mapping[str, int]] = {
    "2.5": 1,
    "5": 2,
    "5.0": 2,
    "8": 3,
    "8.0": 3,
    "16": 4,
    "16.0": 4,
    "32": 5,
    "32.0": 5,
    "64": 6,
    "64.0": 6,
}
_BRIDGE: Final = "0x0604"
_BRIDGES_MAX: Final = 8
_UNKNOWN: Final = "Unknown"


def folder(device: Path, vendor: str) -> Path:
    """Where a card's link to the host is told."""
    try:
        where = device.resolve()
    except (OSError, RuntimeError):
        return device
    for _ in range(_BRIDGES_MAX):
        above = where.parent
        if not sysfs.plain(above / "class").startswith(_BRIDGE):
            break
        if sysfs.plain(above / "vendor") != VENDOR_IDS[vendor]:
            break
        where = above
    return where


def readings(link: Path, which: str = "current") -> dict[str, Any]:
    """Generation and width of a link, as they are now or at most (`max`)."""
    speed_file = link / f"{which}_link_speed"
    width = sysfs.number(link / f"{which}_link_width")
    return {
        "pcie_generation": _generation(speed_file),
        "pcie_width": reading.UNSUPPORTED if width == 0 else width,
    }


def is_inside(link: Path) -> bool:
    """Whether this may be the end inside an Intel card (2.5 GT/s x1), which tells nothing."""
    said = readings(link).values()
    return not any(isinstance(one, int) and one > 1 for one in said)


def _generation(file: Path) -> Any:
    found = sysfs.text(file)
    if not isinstance(found, str):
        return found
    if found.startswith(_UNKNOWN):
        return reading.UNSUPPORTED
    speed, _, unit = found.partition(" ")
    generation = GENERATIONS.get(speed)
    is_clear = generation is not None and unit in ("GT/s", "GT/s PCIe")
    return generation if is_clear else sysfs.unclear(file, found)
