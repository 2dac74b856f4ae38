"""AMD and Intel GPUs, through what the kernel tells of them: sysfs, hwmon, DRM fdinfo.

| module | job |
|---|---|
| `sysfs` | one small file as a reading |
| `cards_found` | which cards there are, and who they are |
| `cards_amd`, `cards_intel` | which file is which reading |
| `cards_link` | the PCIe link |
| `cards_fdinfo`, `cards_clients` | processes and what they use |

Nothing here needs a library, a device node or root, but for other users' processes. A GPU
that its power management has suspended is not asked, which would wake it. A card that is
gone, even while it is read, is not in the observation.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec.structs import replace

from edge_agent import config
from edge_agent.core import reading
from edge_agent.sources import cards_amd, cards_clients, cards_found, cards_intel, sysfs
from wire.sample import GpuInventory

if TYPE_CHECKING:
    from pathlib import Path

METHOD: Final = "sysfs"


class Table(Protocol):
    """What a vendor's module gives for one card."""

    def inventory(self) -> GpuInventory: ...

    def readings(self, now_s: float) -> dict[str, Any]: ...

    def forget(self) -> None: ...


TABLES: Final[Mapping[cards_found.Vendor, Callable[[cards_found.Card], Table]]] = {
    "amd": cards_amd.Amd,
    "intel": cards_intel.Intel,
}
_DRM: Final = config.Drm()
_HOST: Final = config.Host()


class Cards:
    """A source of AMD and Intel GPUs. `host` says where its trees are mounted."""

    name = "drm"
    finished = False

    def __init__(
        self,
        settings: config.Drm = _DRM,
        *,
        host: config.Host = _HOST,
        owners: reading.Owners = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._sys = host.sys
        self._owners = owners
        self._clock = clock
        self._clients = cards_clients.Clients(host.proc, clock)
        self._gpus: dict[Path, _Gpu] = {}

    def available(self) -> reading.Availability:
        """Look for cards anew."""
        self._gpus = {}
        self._look()
        if not self._gpus:
            return reading.Availability(state="no device", detail="no AMD or Intel GPU in sysfs")
        drivers = sorted({gpu.card.identity.driver for gpu in self._gpus.values()})
        return reading.Availability(
            state="yes",
            detail=f"{len(self._gpus)} GPUs of {', '.join(drivers)}",
            gpus=tuple(gpu.inventory() for gpu in self._gpus.values()),
        )

    def read(self) -> Sequence[reading.Observation]:
        """All GPUs that are there now."""
        self._look()
        asleep = {folder for folder, gpu in self._gpus.items() if gpu.card.is_suspended}
        integrated = {
            gpu.card.identity.slot: gpu.card.integrated
            for folder, gpu in self._gpus.items()
            if folder not in asleep
        }
        uses = self._clients.look(integrated) if integrated else {}
        found: list[reading.RawGpu] = []
        for folder, gpu in list(self._gpus.items()):
            if folder in asleep:
                found.append(gpu.asleep())
                continue
            raw = gpu.read(self._clock(), uses[gpu.card.identity.slot], self._owners)
            if gpu.card.is_there:
                found.append(raw)
        return (reading.Observation(gpus=tuple(found)),)

    def stirs(self) -> bool:
        """Whether a GPU is awake; asks its power management only."""
        return not all(gpu.card.is_suspended for gpu in self._gpus.values())

    def close(self) -> None:
        """Forget the cards."""
        self._gpus = {}

    def _look(self) -> None:
        """Keep the cards that are still there, drop the others, add the new ones."""
        kept = {folder: gpu for folder, gpu in self._gpus.items() if gpu.card.is_there}
        new = [folder for folder in cards_found.folders(self._sys) if folder not in kept]
        taken = {gpu.card.uuid for gpu in kept.values()}
        for folder, card in cards_found.cards(new, taken).items():
            if self._settings.integrated or not card.integrated:
                kept[folder] = _Gpu(card)
        self._gpus = kept


class _Gpu:
    """One GPU and its vendor's table."""

    def __init__(self, card: cards_found.Card) -> None:
        self.card = card
        self._table = TABLES[card.vendor](card)

    def inventory(self) -> GpuInventory:
        numa_node = sysfs.or_none(sysfs.number(self.card.device / "numa_node"))
        return replace(
            self._table.inventory(),
            pci_bus_id=self.card.identity.slot,
            numa_node=numa_node if numa_node is not None and numa_node >= 0 else None,
            integrated=self.card.integrated,
            method=METHOD,
        )

    def asleep(self) -> reading.RawGpu:
        self._table.forget()
        return reading.RawGpu(uuid=self.card.uuid, state="suspended")

    def read(self, now_s: float, use: cards_clients.Use, owners: reading.Owners) -> reading.RawGpu:
        readings = self._table.readings(now_s)
        if use.utilization_percent is not None:
            readings.setdefault("utilization_percent", use.utilization_percent)
        return reading.RawGpu(
            uuid=self.card.uuid, readings=readings, processes=owners(use.processes)
        )
