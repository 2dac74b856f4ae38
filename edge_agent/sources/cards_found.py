"""Which DRM cards are GPUs of ours, and who they are.

One file, `device/uevent`, names the driver, the PCI id and the slot without waking
anything. Connectors (`card0-DP-1`), cards of other drivers and the partitions of a GPU
(which are no PCI devices) are left out.

A GPU is integrated when it is Intel's at `00:02.0`, where theirs have always been, or
AMD's with a sensor for the voltage of the northbridge, which the kernel gives to APUs only.
An accelerator (PCI class 12) is never integrated: the MI300A's memory is its own.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from edge_agent.sources import sysfs

Vendor = Literal["amd", "intel"]

VENDORS: Final[dict[str, Vendor]] = {"amdgpu": "amd", "i915": "intel", "xe": "intel"}
_CARD: Final = re.compile(r"card[0-9]+")
_UNIQUE_ID: Final = re.compile(r"(?!0+$)[0-9a-f]{1,32}")
_LABEL: Final = re.compile(r"(([a-z]+)[0-9]+)_label")
_INTEL_INTEGRATED: Final = ":00:02.0"
_ACCELERATOR: Final = "12"


class Identity(Struct, frozen=True):
    """What `device/uevent` says; when it changes, it is another card."""

    driver: str
    pci_id: str
    slot: str
    pci_class: str


class Card(Struct, frozen=True, kw_only=True):
    """One GPU; `sensors` are its hwmon channels by kind and label, such as `temp edge`."""

    uuid: str
    vendor: Vendor
    identity: Identity
    folder: Path
    hwmon: Path | None = None
    sensors: dict[str, str] = {}
    integrated: bool = False

    @property
    def device(self) -> Path:
        """The PCI device's folder."""
        return self.folder / "device"

    @property
    def is_suspended(self) -> bool:
        """Whether its power management let it sleep; asking does not wake it."""
        return sysfs.plain(self.device / "power/runtime_status") == "suspended"

    @property
    def is_there(self) -> bool:
        """Whether this folder is still this card."""
        return identity(self.folder) == self.identity

    def hwmon_file(self, name: str) -> Path:
        """A file of its hwmon folder; one that does not exist where there is none."""
        return (self.hwmon or self.folder / "no-hwmon") / name

    def sensor(self, label: str, suffix: str) -> Path:
        """A file of the channel with this kind and label; one that does not exist without it."""
        return self.hwmon_file(f"{self.sensors.get(label, 'none')}_{suffix}")


def folders(sys_root: str) -> tuple[Path, ...]:
    """The folders of all DRM cards."""
    try:
        names = [one.name for one in Path(sys_root, "class/drm").iterdir()]
    except OSError:
        return ()
    return tuple(
        Path(sys_root, "class/drm", name)
        for name in sorted(names, key=lambda name: (len(name), name))
        if _CARD.fullmatch(name)
    )


def identity(folder: Path) -> Identity | None:
    """Who the card in a folder is; None when it is not for us or is gone."""
    lines = sysfs.plain(folder / "device/uevent").splitlines()
    said = dict(line.split("=", 1) for line in lines if "=" in line)
    driver, slot = said.get("DRIVER", ""), said.get("PCI_SLOT_NAME", "")
    if driver not in VENDORS or not slot:
        return None
    return Identity(driver, said.get("PCI_ID", "").lower(), slot.lower(), said.get("PCI_CLASS", ""))


def cards(found: Iterable[Path], taken: Container[str] = ()) -> dict[Path, Card]:
    """The GPUs among the cards in these folders. An id that two share names neither of them."""
    made = {folder: _card(folder, who) for folder in found if (who := identity(folder))}
    uses = Counter(card.uuid for card in made.values())
    return {
        folder: card
        if uses[card.uuid] == 1 and card.uuid not in taken
        else replace(card, uuid=_by_slot(card.identity))
        for folder, card in made.items()
    }


def _card(folder: Path, who: Identity) -> Card:
    hwmon = _hwmon(folder / "device", who.driver)
    sensors = _sensors(hwmon) if hwmon else {}
    vendor = VENDORS[who.driver]
    unique_id = sysfs.plain(folder / "device/unique_id").lower() if vendor == "amd" else ""
    is_known = _UNIQUE_ID.fullmatch(unique_id) is not None
    return Card(
        uuid=f"amd-{unique_id}" if is_known else _by_slot(who),
        vendor=vendor,
        identity=who,
        folder=folder,
        hwmon=hwmon,
        sensors=sensors,
        integrated=_is_integrated(vendor, who, sensors),
    )


def _by_slot(who: Identity) -> str:
    return f"{VENDORS[who.driver]}-{who.slot}-{who.pci_id.rpartition(':')[2]}"


def _is_integrated(vendor: Vendor, who: Identity, sensors: dict[str, str]) -> bool:
    if vendor == "intel":
        return who.slot.endswith(_INTEL_INTEGRATED)
    return "in vddnb" in sensors and not who.pci_class.zfill(6).startswith(_ACCELERATOR)


def _hwmon(device: Path, driver: str) -> Path | None:
    """The hwmon folder of the whole device; i915 has one for each tile besides."""
    try:
        found = sorted((device / "hwmon").iterdir())
    except OSError:
        return None
    return next((one for one in found if sysfs.plain(one / "name") == driver), None)


def _sensors(hwmon: Path) -> dict[str, str]:
    try:
        names = sorted(one.name for one in hwmon.iterdir())
    except OSError:
        return {}
    found: dict[str, str] = {}
    for channel, kind in [(hit[1], hit[2]) for hit in map(_LABEL.fullmatch, names) if hit]:
        found.setdefault(f"{kind} {sysfs.plain(hwmon / f'{channel}_label')}", channel)
    return found
