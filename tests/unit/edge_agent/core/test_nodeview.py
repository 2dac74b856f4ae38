"""What the page knows of a node."""

import pytest

from edge_agent.core import nodeview
from support.gpus import UUID, h100, inventory, sample, xid
from wire.sample import Event, Gpu, GpuInventory

EMPTY = nodeview.NodeView()


def seen(*gpus, now_ms=0, **more):
    return nodeview.with_sample(EMPTY, sample(*gpus, **more), now_ms, charges=False)


@pytest.mark.parametrize(
    ("cadence_ms", "interval_ms", "fresh_ms"),
    [(1000, 1000, 10_000), (4000, 1000, 12_000), (30_000, 1000, 90_000), (0, 5000, 15_000)],
)
def test_a_sample_is_fresh_for_three_waits(cadence_ms, interval_ms, fresh_ms):
    """A node that sleeps on purpose is not stale; one that says nothing is, after 10 s."""
    view = seen(h100(), cadence_ms=cadence_ms, interval_ms=interval_ms)

    assert nodeview.is_fresh(view, fresh_ms)
    assert not nodeview.is_fresh(view, fresh_ms + 1)


def test_without_a_sample_nothing_is_fresh():
    """A birth alone makes no values."""
    assert not nodeview.is_fresh(nodeview.with_inventory(EMPTY, (inventory(),), "570"), 0)


def test_events_are_counted():
    """BR-29: the same XID twice is two, and the time is that of the later."""
    view = EMPTY
    for event in (xid(31, 10_000), xid(31, 70_000), xid(79, 5, count=3, ts_last_unix_ms=90_000)):
        view = nodeview.with_event(view, event)

    assert view.events == {"xid": 5}
    assert {(key.code, xids.count, xids.last_unix_ms) for key, xids in view.xids.items()} == {
        ("31", 2, 70_000),
        ("79", 3, 90_000),
    }


def test_an_event_that_is_no_xid_is_only_counted():
    """Its name is all that the page tells."""
    view = nodeview.with_event(EMPTY, Event(seq=1, ts_unix_ms=1, event="gpu-lost"))

    assert (view.events, view.xids) == ({"gpu-lost": 1}, {})


@pytest.mark.parametrize(("bus", "uuid"), [("00000000:3B:00.0", UUID), ("x", ""), (None, "")])
def test_an_xid_finds_its_gpu_by_the_bus(bus, uuid):
    """The kernel's log knows bus ids only; what is not in the inventory stays nameless."""
    view = nodeview.with_inventory(EMPTY, (inventory(), GpuInventory(uuid="B", vendor="amd")), None)
    view = nodeview.with_event(view, xid(13, uuid=None, pci_bus_id=bus))

    assert [key.gpu_uuid for key in view.xids] == [uuid]


def test_codes_are_bounded():
    """A driver that makes up codes cannot fill the memory: past the bound they are `other`."""
    view = EMPTY
    for code in range(nodeview.XIDS_MAX + 50):
        view = nodeview.with_event(view, xid(code))

    assert len(view.xids) == nodeview.XIDS_MAX + 1
    assert view.xids[nodeview.XidKey("", "other", "unknown")].count == 50


def test_gpus_are_numbered_by_bus():
    """Domains of four and eight digits sort together; without a bus, last and by UUID."""
    known = (
        inventory("A", "00000000:C1:00.0"),
        inventory("B", "0000:0a:00.0"),
        GpuInventory(uuid="D", vendor="simulated"),
    )
    view = nodeview.with_inventory(seen(Gpu(uuid="C")), known, None)

    assert nodeview.ordinals(view) == {"B": 0, "A": 1, "C": 2, "D": 3}
    assert nodeview.ordinals(EMPTY) == {}


def test_energy_is_charged_only_when_asked():
    """The ledger costs a pass over all processes; only Kepler's names need it."""
    first = nodeview.with_sample(EMPTY, sample(h100()), 0, charges=True)

    assert first.ledger.used_mj
    assert not seen(h100()).ledger.used_mj


def test_a_vendor_is_told_before_the_birth_too():
    """Labels do not depend on the order in which a node is learned of."""
    assert (nodeview.vendor(None), nodeview.vendor(inventory())) == ("gpu", "nvidia")
