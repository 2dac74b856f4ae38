"""The PCIe link of cards with and without a switch of their own."""

import pytest

from edge_agent import config
from edge_agent.core import reading
from edge_agent.sources import cards
from support.cards import tree

NONE = reading.UNSUPPORTED


def bridge(folder, vendor, speed, width):
    tree.write(folder / "class", "0x060400")
    tree.write(folder / "vendor", vendor)
    for which in ("current", "max"):
        tree.write(folder / f"{which}_link_speed", speed)
        tree.write(folder / f"{which}_link_width", str(width))


def opened(host):
    source = cards.Cards(config.Drm(integrated=True), host=host.host)
    inventory = source.available().gpus[0]
    found = source.read()[0].gpus[0].readings
    return (found["pcie_generation"], found["pcie_width"]), inventory


@pytest.mark.parametrize(("name", "vendor"), [("arc-b580", "0x8086"), ("rx6600", "0x1002")])
def test_the_link_is_that_of_the_cards_own_switch(tmp_path, name, vendor):
    """Behind a switch on the card, the card's link is the one above that switch."""
    host = tree.Tree(tmp_path)
    host.card(name, below="0000:00:01.0/0000:01:00.0/0000:02:00.0")
    root = tmp_path / "sys/devices/pci0000:00/0000:00:01.0"
    bridge(root, "0x10de", "2.5 GT/s PCIe", 2)
    bridge(root / "0000:01:00.0", vendor, "16.0 GT/s PCIe", 8)
    bridge(root / "0000:01:00.0/0000:02:00.0", vendor, "2.5 GT/s PCIe", 1)

    link, inventory = opened(host)

    assert link == (4, 8)
    assert (inventory.pcie_generation_max, inventory.pcie_width_max) == (4, 8)


def test_a_root_port_of_the_same_vendor_tells_the_same_link(tmp_path):
    """An Intel card in an Intel machine: the root port is the link's other end."""
    host = tree.Tree(tmp_path)
    host.card("arc-a380-xe", below="0000:00:01.0/0000:01:00.0/0000:02:00.0")
    root = tmp_path / "sys/devices/pci0000:00/0000:00:01.0"
    bridge(root, "0x8086", "8.0 GT/s PCIe", 4)
    bridge(root / "0000:01:00.0", "0x8086", "8.0 GT/s PCIe", 4)
    bridge(root / "0000:01:00.0/0000:02:00.0", "0x8086", "2.5 GT/s PCIe", 1)

    assert opened(host)[0] == (3, 4)


@pytest.mark.parametrize("name", ["arc-b580", "arc-a380-i915", "arc-a380-xe", "tigerlake-xe"])
def test_a_link_inside_the_card_or_none_is_not_told(tmp_path, name):
    """2.5 GT/s x1 is what Intel's GPUs say of the inside of their card; Unknown is no speed."""
    host = tree.Tree(tmp_path)
    host.card(name)

    assert opened(host)[0] == (NONE, NONE)


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        ("2.5 GT/s PCIe", 1),
        ("5.0 GT/s PCIe", 2),
        ("8 GT/s", 3),
        ("32.0 GT/s PCIe", 5),
        ("64.0 GT/s PCIe", 6),
        ("Unknown speed", NONE),
        ("Unknown", NONE),
    ],
)
def test_generations(tmp_path, speed, expected):
    """Each speed that PCIe has is a generation."""
    host = tree.Tree(tmp_path)
    host.card("rx6600", files={"device/current_link_speed": speed})

    assert opened(host)[0][0] == expected


@pytest.mark.parametrize("speed", ["7.0 GT/s PCIe", "16.0", "16.0 MT/s", "fast"])
def test_a_speed_that_is_none_is_a_failure(tmp_path, speed):
    """What cannot be a PCIe speed is no generation."""
    host = tree.Tree(tmp_path)
    host.card("rx6600", files={"device/current_link_speed": speed})

    assert isinstance(opened(host)[0][0], reading.Failed)
