"""What amdgpu tells: which file is which reading.

Decided: utilisation is `gpu_busy_percent`. The graphics clock is the sensor `sclk`; where
there is none, the level marked in `pp_dpm_sclk`. Memory is the VRAM, the driver's own part
counted as used; an APU's "VRAM" is a piece cut from the CPU's memory that tells nothing of
what fits, so an integrated GPU has `unified` memory without figures. ECC counts are summed
over the blocks that count. There is no energy counter.

A fan's `pwm1` is told only when it agrees with the tachometer: some cards say 0 while the
fan turns, or 30 % while it stands.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from edge_agent.core import reading
from edge_agent.sources import cards_link, sysfs
from edge_agent.sources.cards_found import Card
from wire.sample import GpuInventory

Scale = Callable[[int], Any]

DEVICE: Final[Mapping[str, str]] = {
    "utilization_percent": "gpu_busy_percent",
    "memory_utilization_percent": "mem_busy_percent",
    "pcie_replay_count": "pcie_replay_count",
}
HWMON: Final[Mapping[str, tuple[tuple[str, ...], Scale]]] = {
    "power_mw": (("power1_average", "power1_input"), sysfs.thousandth),
    "power_limit_mw": (("power1_cap",), sysfs.thousandth),
    "energy_mj": (("energy1_input",), sysfs.thousandth),
    "fan_rpm": (("fan1_input",), sysfs.same),
}
SENSORS: Final[Mapping[str, tuple[str, str, Scale]]] = {
    "temperature_c": ("temp edge", "input", sysfs.celsius),
    "temperature_hotspot_c": ("temp junction", "input", sysfs.celsius),
    "temperature_memory_c": ("temp mem", "input", sysfs.celsius),
    "temperature_slowdown_c": ("temp edge", "crit", sysfs.celsius),
}
CLOCKS: Final[Mapping[str, tuple[str, str]]] = {
    "graphics_clock_mhz": ("freq sclk", "pp_dpm_sclk"),
    "memory_clock_mhz": ("freq mclk", "pp_dpm_mclk"),
}
MEMORY: Final = (
    "memory_total_bytes",
    "memory_used_bytes",
    "memory_free_bytes",
)
_LEVEL: Final = re.compile(r"[0-9S]+: ([0-9]{1,6})Mhz( \*)?")
_ERRORS: Final = re.compile(r"(ue|ce): ([0-9]{1,19})")
_PWM_MAX: Final = 255


class Amd:
    """One GPU as amdgpu tells it."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._link = cards_link.folder(card.device, card.vendor)

    def inventory(self) -> GpuInventory:
        """What does not change; of a sleeping GPU only what does not wake it."""
        return _inventory(self._card, self._link)

    def readings(self, _now_s: float) -> dict[str, Any]:
        """Everything there is now."""
        return _readings(self._card, self._link)

    def forget(self) -> None:
        """Nothing is remembered between two reads."""


def _readings(card: Card, link: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: sysfs.number(card.device / file) for name, file in DEVICE.items()
    }
    for name, (files, scale) in HWMON.items():
        found[name] = sysfs.scaled(sysfs.first(map(card.hwmon_file, files)), scale)
    for name, (label, suffix, scale) in SENSORS.items():
        found[name] = sysfs.scaled(sysfs.number(card.sensor(label, suffix)), scale)
    for name, (label, file) in CLOCKS.items():
        found[name] = _clock(card, label, card.device / file)
    found |= _memory(card)
    found |= _fan_percent(card, found["fan_rpm"])
    found |= _ecc(card.device / "ras")
    found |= cards_link.readings(link)
    found["throttle_reasons"] = reading.UNSUPPORTED
    return {name: value for name, value in found.items() if value is not None}


def _inventory(card: Card, link: Path) -> GpuInventory:
    device = card.device
    total = None if card.integrated else sysfs.or_none(sysfs.number(device / "mem_info_vram_total"))
    said: dict[str, Any] = {
        "name": sysfs.plain(device / "product_name") or f"AMD {card.identity.pci_id}",
        "serial": sysfs.plain(device / "serial_number") or None,
        "vbios_version": sysfs.plain(device / "vbios_version") or None,
        "board_part_number": sysfs.plain(device / "product_number") or None,
        "memory_total_bytes": total,
    }
    if not card.is_suspended:
        maxima = cards_link.readings(link, "max")
        milliwatts = {
            f"power_limit_{which}_mw": card.hwmon_file(f"power1_cap_{which}")
            for which in ("default", "min", "max")
        }
        said |= {
            name: sysfs.or_none(sysfs.scaled(sysfs.number(file), sysfs.thousandth))
            for name, file in milliwatts.items()
        }
        said |= {
            "temperature_shutdown_c": sysfs.or_none(
                sysfs.scaled(sysfs.number(card.sensor("temp edge", "emergency")), sysfs.celsius)
            ),
            "memory_clock_max_mhz": _highest(device / "pp_dpm_mclk"),
            "pcie_generation_max": sysfs.or_none(maxima["pcie_generation"]),
            "pcie_width_max": sysfs.or_none(maxima["pcie_width"]),
        }
    return GpuInventory(uuid=card.uuid, vendor="amd", **said)


def _clock(card: Card, label: str, levels: Path) -> Any:
    """The sensor's clock, else the marked level. Nothing when none or several are marked."""
    found = sysfs.number(card.sensor(label, "input"))
    if not isinstance(found, reading.Unsupported):
        return sysfs.scaled(found, sysfs.mhz)
    said = sysfs.text(levels)
    if not isinstance(said, str):
        return said
    hits = [_LEVEL.fullmatch(line.strip()) for line in said.splitlines()]
    if not all(hits):
        return sysfs.unclear(levels, said)
    marked = {int(hit[1]) for hit in hits if hit and hit[2]}
    return marked.pop() if len(marked) == 1 else None


def _highest(levels: Path) -> int | None:
    hits = [_LEVEL.fullmatch(line.strip()) for line in sysfs.plain(levels).splitlines()]
    return max((int(hit[1]) for hit in hits if hit), default=None)


def _memory(card: Card) -> dict[str, Any]:
    if card.integrated:
        return dict.fromkeys(MEMORY, reading.UNSUPPORTED) | {"memory_method": "unified"}
    total = sysfs.number(card.device / "mem_info_vram_total")
    used = sysfs.number(card.device / "mem_info_vram_used")
    free: Any = reading.UNSUPPORTED
    if isinstance(total, int) and isinstance(used, int):
        free = total - used if 0 <= used <= total else None
    method = "reserved-in-used" if isinstance(used, int) else reading.UNSUPPORTED
    return dict(zip(MEMORY, (total, used, free), strict=True)) | {"memory_method": method}


def _fan_percent(card: Card, fan_rpm: Any) -> dict[str, Any]:
    pwm = sysfs.number(card.hwmon_file("pwm1"))
    if not isinstance(pwm, int):
        return {"fan_percent": pwm}
    if isinstance(fan_rpm, int) and (pwm == 0) != (fan_rpm == 0):
        return {}
    top = sysfs.or_none(sysfs.number(card.hwmon_file("pwm1_max"))) or _PWM_MAX
    return {"fan_percent": 100 * pwm / top}


def _ecc(ras: Path) -> dict[str, Any]:
    """The sums over all blocks; one that cannot be read makes the sum unknown."""
    names = {"ce": "ecc_corrected_count", "ue": "ecc_uncorrected_count"}
    try:
        files = sorted(ras.glob("*_err_count"))
    except OSError:
        files = []
    sums = dict.fromkeys(names, 0)
    seen = False
    for file in files:
        said = sysfs.text(file)
        if isinstance(said, reading.Unsupported):
            continue
        failed = said if isinstance(said, reading.Failed) else None
        counts = {} if failed else dict(_ERRORS.findall(str(said)))
        if counts.keys() != sums.keys():
            problem = failed or sysfs.unclear(file, str(said))
            return dict.fromkeys(names.values(), problem)
        seen = True
        for kind, count in counts.items():
            sums[kind] += int(count)
    return {name: sums[kind] if seen else reading.UNSUPPORTED for kind, name in names.items()}
