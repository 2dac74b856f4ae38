"""What the page knows of one node: the latest sample, the inventory, the events so far.

A view is replaced as a whole by each thing that happens, so that a page made meanwhile
in another thread sees one moment.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from edge_agent.core import attribution
from wire.sample import Event, GpuInventory, Sample

FRESH_MS_MIN: Final = 10_000
FRESH_WAITS: Final = 3
XIDS_MAX: Final = 256


class XidKey(Struct, frozen=True):
    """One code on one GPU; `gpu_uuid` is empty when the GPU could not be told."""

    gpu_uuid: str
    code: str
    xid_class: str


class Xids(Struct, frozen=True):
    """How often a code came, and when last."""

    count: int
    last_unix_ms: int


class NodeView(Struct, frozen=True, kw_only=True):
    """One node, by GPU UUID where a GPU is meant; `put_ms` is on the caller's clock."""

    sample: Sample | None = None
    before: Sample | None = None
    put_ms: int = 0
    inventory: Mapping[str, GpuInventory] = {}
    driver_version: str | None = None
    xids: Mapping[XidKey, Xids] = {}
    events: Mapping[str, int] = {}
    ledger: attribution.Ledger = attribution.EMPTY


def with_sample(view: NodeView, sample: Sample, now_ms: int, *, charges: bool) -> NodeView:
    """A new sample; with `charges` its energy is charged to the processes."""
    ledger = attribution.step(view.ledger, sample) if charges else view.ledger
    return replace(view, sample=sample, before=view.sample, put_ms=now_ms, ledger=ledger)


def with_inventory(
    view: NodeView, gpus: tuple[GpuInventory, ...], driver_version: str | None
) -> NodeView:
    """A new birth."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    return replace(view, inventory=by_uuid, driver_version=driver_version)


def with_event(view: NodeView, event: Event) -> NodeView:
    """An event, counted; past `XIDS_MAX` codes are counted together as `other`."""
    events = {**view.events, event.event: view.events.get(event.event, 0) + event.count}
    view = replace(view, events=events)
    if event.xid is None:
        return view
    key = XidKey(_gpu_of(view, event), str(event.xid), event.xid_class or "unknown")
    if key not in view.xids and len(view.xids) >= XIDS_MAX:
        key = XidKey("", "other", "unknown")
    last_unix_ms = event.ts_last_unix_ms or event.ts_unix_ms
    counted = view.xids.get(key, Xids(0, last_unix_ms))
    xids = Xids(counted.count + event.count, max(counted.last_unix_ms, last_unix_ms))
    return replace(view, xids={**view.xids, key: xids})


def is_fresh(view: NodeView, now_ms: int) -> bool:
    """Whether the sample still tells how it is: three missed samples, 10 s at least."""
    if view.sample is None:
        return False
    wait_ms = view.sample.cadence_ms or view.sample.interval_ms
    return now_ms - view.put_ms <= max(FRESH_MS_MIN, FRESH_WAITS * wait_ms)


def ordinals(view: NodeView) -> dict[str, int]:
    """A number for each GPU, in the order of their PCI bus ids: names are by UUID with us."""
    gpus = view.sample.gpus if view.sample else ()
    uuids = {*view.inventory, *(gpu.uuid for gpu in gpus)}
    found = sorted(uuids, key=lambda uuid: (_bus(view, uuid), uuid))
    return {uuid: number for number, uuid in enumerate(found)}


def vendor(known: GpuInventory | None) -> str:
    """A word for who made the GPU, also before the birth."""
    return known.vendor if known else "gpu"


def _gpu_of(view: NodeView, event: Event) -> str:
    if event.gpu_uuid:
        return event.gpu_uuid
    buses = {gpu.pci_bus_id: gpu.uuid for gpu in view.inventory.values() if gpu.pci_bus_id}
    return buses.get(event.pci_bus_id or "", "")


def _bus(view: NodeView, uuid: str) -> str:
    """For sorting: domains are written with four or eight digits; what has no bus is last."""
    gpu = view.inventory.get(uuid)
    bus = gpu.pci_bus_id if gpu else None
    return bus.lower().rjust(16, "0") if bus else "~"
