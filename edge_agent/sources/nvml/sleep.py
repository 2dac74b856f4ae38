"""Whether a GPU is suspended, from sysfs: asking NVML would wake it.

Only a GPU whose power management is on (`power/control` is `auto`) can be; the others are
not looked at again until the source is opened anew.
"""

from collections.abc import Iterable
from pathlib import Path


class Sleep:
    """The GPUs that may sleep, by UUID; `pci_bus_ids` as NVML writes them."""

    def __init__(self, sys_root: str, pci_bus_ids: Iterable[tuple[str, str | None]]) -> None:
        self._files: dict[str, Path] = {}
        for uuid, bus_id in pci_bus_ids:
            if bus_id:
                power = Path(sys_root, "bus/pci/devices", bus_id[-12:].lower(), "power")
                if _read(power / "control") == "auto":
                    self._files[uuid] = power / "runtime_status"

    def is_suspended(self, uuid: str) -> bool:
        """Whether this GPU sleeps now."""
        file = self._files.get(uuid)
        return file is not None and _read(file) == "suspended"


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
