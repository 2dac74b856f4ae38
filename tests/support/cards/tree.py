"""Trees of sysfs and procfs with AMD and Intel GPUs, built from `captures.json`.

The captures are what public repositories hold of real machines; each names its source.
A card is built as the kernel has it: `class/drm/cardN/device` leads to the PCI device,
whose `uevent` names driver, id and slot.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge_agent import config

_CAPTURES = json.loads(Path(__file__).with_name("captures.json").read_text(encoding="utf-8"))
DEVICES: Mapping[str, Mapping[str, Any]] = {one["id"]: one for one in _CAPTURES["devices"]}
CLIENTS: tuple[Mapping[str, Any], ...] = tuple(_CAPTURES["clients"])


KTHREADD = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 1 0 0 20 0 1 0 31 0 0"


class Tree:
    """One host's `/sys` and `/proc` below a folder."""

    def __init__(self, root: Path, *, sees_host: bool = True) -> None:
        self.host = config.Host(sys=str(root / "sys"), proc=str(root / "proc"))
        self.drm = root / "sys/class/drm"
        self.drm.mkdir(parents=True)
        self.proc = root / "proc"
        self.proc.mkdir()
        if sees_host:
            write(self.proc / "2/stat", KTHREADD)
            (self.proc / "2/fd").mkdir()

    def card(
        self,
        name: str,
        number: int = 0,
        *,
        slot: str = "",
        files: Mapping[str, str | None] | None = None,
        below: str = "",
    ) -> Path:
        """A captured card; `files` are put over the captured ones, None takes one away."""
        capture = DEVICES[name]
        slot = slot or capture["slot"]
        folder = self.drm / f"card{number}"
        folder.mkdir()
        device = self.drm.parents[1] / "devices/pci0000:00" / below / slot
        device.mkdir(parents=True)
        (folder / "device").symlink_to(device)
        write(
            device / "uevent",
            f"DRIVER={capture['driver']}\nPCI_CLASS={capture['pci_class']}\n"
            f"PCI_ID={capture['pci_id']}\nPCI_SLOT_NAME={slot}",
        )
        for file, text in {**capture["files"], **(files or {})}.items():
            if text is not None:
                write(folder / file, text)
        return folder

    def client(
        self, pid: int, descriptor: int, lines: list[str], node: str = "/dev/dri/renderD128"
    ) -> Path:
        """A process's open node and what its fdinfo says."""
        link = self.proc / f"{pid}/fd/{descriptor}"
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(node)
        return write(self.proc / f"{pid}/fdinfo/{descriptor}", "\n".join(lines))


def write(file: Path, text: str) -> Path:
    """A file as the kernel writes it, with a line's end."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n", encoding="utf-8", errors="surrogateescape")
    return file
