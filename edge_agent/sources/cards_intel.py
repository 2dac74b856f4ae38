"""What i915 and xe tell: which file is which reading.

Decided: power is the energy counter's difference over the time between two reads, so the
first read and a counter that stands still or goes back give none. The counter is the whole
card's; one that says 0 does not count, and then it is the package's; which of them is kept
while the source is open. The power limit is PL1 where there is one, else the burst limit;
0 means off. The clock is that of the render GT; a GT in its sleep says 0. Several fans are
told by the fastest. Memory in use is not told by sysfs; utilisation comes from the
processes (see `cards_clients`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from edge_agent.core import reading
from edge_agent.sources import cards_link, sysfs
from edge_agent.sources.cards_found import Card
from wire.sample import GpuInventory

ABSENT: Final = (
    "memory_utilization_percent",
    "memory_used_bytes",
    "memory_free_bytes",
    "temperature_hotspot_c",
    "fan_percent",
    "memory_clock_mhz",
    "ecc_corrected_count",
    "ecc_uncorrected_count",
)
ENERGIES: Final = ("energy1_input", "energy2_input")
LIMITS: Final = ("power1_max", "power2_max", "power1_cap", "power2_cap")
REASONS: Final[Mapping[str, str]] = {
    "thermal": "hw-thermal-slowdown",
    "vr_thermalert": "hw-thermal-slowdown",
    "prochot": "hw-slowdown",
    "ratl": "sw-thermal-slowdown",
    "pl1": "sw-power-cap",
    "pl2": "sw-power-cap",
}
_OVERALL: Final = frozenset({"status"})
_RENDER: Final = "-rc"


class Intel:
    """One GPU as i915 or xe tell it; remembers its energy counter between two reads."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._link = cards_link.folder(card.device, card.vendor)
        self._energy_file: str | None = None
        self._before: tuple[int, float] | None = None

    def inventory(self) -> GpuInventory:
        """What does not change; of a sleeping GPU only what does not wake it."""
        return _inventory(self._card, self._link)

    def readings(self, now_s: float) -> dict[str, Any]:
        """Everything there is now, but for the utilisation."""
        card = self._card
        fans = [card.hwmon_file(f"fan{number}_input") for number in (1, 2, 3)]
        total = _memory_total(card)
        found: dict[str, Any] = dict.fromkeys(ABSENT, reading.UNSUPPORTED)
        found |= {
            "memory_total_bytes": total,
            "memory_method": "unified" if card.integrated else reading.UNSUPPORTED,
            "power_limit_mw": _limit(card, LIMITS),
            "temperature_c": _temperature(card, "pkg", "input"),
            "temperature_memory_c": _temperature(card, "vram", "input"),
            "temperature_slowdown_c": _temperature(card, "pkg", "crit"),
            "fan_rpm": _highest(fans),
            "graphics_clock_mhz": _highest(_clock_files(card, "now")),
            "throttle_reasons": _throttle_reasons(card),
        }
        return found | _link(card, self._link, "current") | self._energy(now_s)

    def forget(self) -> None:
        """Do not reckon power over the time from here to the next read."""
        self._before = None

    def _energy(self, now_s: float) -> dict[str, Any]:
        microjoules = self._counter()
        if not isinstance(microjoules, int):
            self._before = None
            return {"energy_mj": microjoules, "power_mw": microjoules}
        found = {"energy_mj": sysfs.thousandth(microjoules)}
        before, self._before = self._before, (microjoules, now_s)
        if before is not None and before[0] < microjoules and before[1] < now_s:
            found["power_mw"] = round((microjoules - before[0]) / (now_s - before[1]) / 1_000)
        return found

    def _counter(self) -> Any:
        """The counter in microjoules: the one chosen, or the first that counts."""
        found: Any = reading.UNSUPPORTED
        for name in (self._energy_file,) if self._energy_file else ENERGIES:
            found = sysfs.number(self._card.hwmon_file(name))
            if isinstance(found, int) and found > 0:
                self._energy_file = name
                return found
            if isinstance(found, reading.Failed):
                return found
        return reading.UNSUPPORTED


def _inventory(card: Card, link: Path) -> GpuInventory:
    said: dict[str, Any] = {"name": f"Intel {card.identity.pci_id}"}
    if not card.is_suspended:
        maxima = _link(card, link, "max")
        said |= {
            "memory_total_bytes": sysfs.or_none(_memory_total(card)),
            "power_limit_default_mw": sysfs.or_none(
                _limit(card, ("power1_rated_max", "power2_rated_max"))
            ),
            "temperature_shutdown_c": sysfs.or_none(_temperature(card, "pkg", "emergency")),
            "graphics_clock_max_mhz": sysfs.or_none(_highest(_clock_files(card, "max"))),
            "pcie_generation_max": sysfs.or_none(maxima["pcie_generation"]),
            "pcie_width_max": sysfs.or_none(maxima["pcie_width"]),
        }
    return GpuInventory(uuid=card.uuid, vendor="intel", **said)


def _clock_files(card: Card, which: str) -> list[Path]:
    """The clocks of the GTs that render, one on each tile, now or at most."""
    if card.identity.driver == "xe":
        name = {"now": "act_freq", "max": "rp0_freq"}[which]
        gts = sorted(card.device.glob("tile*/gt*"))
        return [gt / "freq0" / name for gt in gts if _renders(gt)]
    name = {"now": "act", "max": "RP0"}[which]
    of_gt = card.folder / f"gt/gt0/rps_{name}_freq_mhz"
    return [of_gt if of_gt.exists() else card.folder / f"gt_{name}_freq_mhz"]


def _renders(gt: Path) -> bool:
    """Whether a GT of xe is one for rendering; the others are for media."""
    said = sysfs.text(gt / "gtidle/name")
    return said.endswith(_RENDER) if isinstance(said, str) else gt.name == "gt0"


def _highest(files: Iterable[Path]) -> Any:
    """The highest of what these files say; one that cannot be read makes it unknown."""
    found = [sysfs.number(file) for file in files]
    failed = next((one for one in found if isinstance(one, reading.Failed)), None)
    numbers = [one for one in found if isinstance(one, int)]
    return failed or (max(numbers) if numbers else reading.UNSUPPORTED)


def _memory_total(card: Card) -> Any:
    if card.integrated:
        return reading.UNSUPPORTED
    tiles = [
        sysfs.number(tile / "physical_vram_size_bytes")
        for tile in sorted(card.device.glob("tile[0-9]*"))
    ]
    failed = next((one for one in tiles if isinstance(one, reading.Failed)), None)
    if failed or not tiles or reading.UNSUPPORTED in tiles:
        return failed or reading.UNSUPPORTED
    return sum(tiles)


def _limit(card: Card, names: Iterable[str]) -> Any:
    found = sysfs.first(map(card.hwmon_file, names))
    return reading.UNSUPPORTED if found == 0 else sysfs.scaled(found, sysfs.thousandth)


def _temperature(card: Card, label: str, suffix: str) -> Any:
    """By label; i915 has one sensor, the package's, and no label for it."""
    file = card.sensor(f"temp {label}", suffix)
    if card.identity.driver == "i915" and label == "pkg":
        file = card.hwmon_file(f"temp1_{suffix}")
    return sysfs.scaled(sysfs.number(file), sysfs.celsius)


def _throttle_reasons(card: Card) -> Any:
    """What slows any GT down. One file that cannot be read makes the whole unknown."""
    files = [
        (file, file.name.removeprefix("throttle_").removeprefix("reason_"))
        for pattern, root in (
            ("tile*/gt*/freq0/throttle/reason_*", card.device),
            ("gt/gt*/throttle_reason_*", card.folder),
        )
        for file in sorted(root.glob(pattern))
    ]
    reasons: dict[str, None] = {}
    seen = False
    for file, name in files:
        found = sysfs.number(file)
        if name in _OVERALL or isinstance(found, reading.Unsupported):
            continue
        if found not in (0, 1):
            problem = sysfs.unclear(file, str(found))
            return found if isinstance(found, reading.Failed) else problem
        seen = True
        if found:
            reasons[REASONS.get(name, name.replace("_", "-"))] = None
    return tuple(reasons) if seen else reading.UNSUPPORTED


def _link(card: Card, link: Path, which: str) -> dict[str, Any]:
    if not card.integrated and link == card.device.resolve() and cards_link.is_inside(link):
        return dict.fromkeys(("pcie_generation", "pcie_width"), reading.UNSUPPORTED)
    return cards_link.readings(link, which)
