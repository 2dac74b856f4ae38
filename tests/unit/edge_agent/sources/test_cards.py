"""AMD and Intel GPUs as a source: all captured devices, sleep, loss, and identities."""

import json
import os
import shutil
from pathlib import Path

import pytest

from edge_agent import config
from edge_agent.core import normalize, reading
from edge_agent.sources import cards, catalog
from support.cards import tree

EXPECTED = json.loads(Path(tree.__file__).with_name("expected.json").read_text(encoding="utf-8"))
EVERY = config.Drm(integrated=True)
GPUS = sorted(name for name, expected in EXPECTED.items() if expected)


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def host(tmp_path):
    return tree.Tree(tmp_path)


def opened(host, settings=EVERY, **more):
    source = cards.Cards(settings, host=host.host, **more)
    return source, source.available()


def only(source):
    (observation,) = source.read()
    (gpu,) = observation.gpus
    return gpu


def suspend(card, status="suspended"):
    tree.write(card / "device/power/runtime_status", status)


@pytest.mark.parametrize("name", GPUS)
def test_a_captured_device_tells_what_its_files_say(host, name):
    """Each captured GPU tells exactly the expected values; all else is unsupported, not false."""
    host.card(name)
    source, found = opened(host)

    gpu = only(source)
    told = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in gpu.readings.items()
        if not isinstance(value, reading.Unsupported)
    }

    assert found.state == "yes"
    assert EXPECTED[name]["readings"] == told
    assert set(gpu.readings) <= set(reading.READABLE_FIELDS)
    for field, value in EXPECTED[name]["inventory"].items():
        assert value == getattr(found.gpus[0], field), field


@pytest.mark.parametrize("name", GPUS)
def test_a_captured_device_is_normalized_without_a_complaint(host, name):
    """Nothing that a real device says is refused as impossible or failed."""
    host.card(name)
    source, _ = opened(host)

    found = normalize.normalize(only(source))

    assert found.invalid_count == 0
    assert found.gpu.errors == {}


def test_every_capture_is_expected():
    """No captured device is left out of these tests, and each names its source."""
    assert set(tree.DEVICES) == set(EXPECTED)
    assert all(one["source"] for one in tree.DEVICES.values())


def test_it_is_a_source_and_a_sleeper(host):
    """The class is what the catalogue asks for."""
    source, _ = opened(host)

    assert isinstance(source, catalog.Sleeper)
    assert source.name == "drm"
    assert not source.finished


@pytest.mark.parametrize("name", [None, "hd7870"])
def test_without_a_gpu_of_ours_there_is_no_device(host, name):
    """An empty host, and one with a card of another driver, say `no device`."""
    if name:
        host.card(name)
    source, found = opened(host)

    assert found.state == "no device"
    assert source.read()[0].gpus == ()
    assert not source.stirs()


def test_without_sysfs_there_is_no_device(tmp_path):
    """Trees that are not mounted are no error."""
    source = cards.Cards(host=config.Host(sys=str(tmp_path / "a"), proc=str(tmp_path / "b")))

    assert source.available().state == "no device"


def test_connectors_and_nodes_are_no_cards(host):
    """Only `cardN` is a card: not its connectors, render nodes or anything else there."""
    card = host.card("rx580")
    for name in ("card0-DP-1", "renderD128", "card", "version"):
        (host.drm / name).mkdir()
        (host.drm / name / "device").symlink_to(card / "device")

    assert len(opened(host)[1].gpus) == 1


@pytest.mark.parametrize("name", GPUS)
def test_integrated_gpus_are_told_only_when_wanted(host, name):
    """A GPU that shares chip and memory with the CPU is left out unless the settings ask."""
    host.card(name)
    is_integrated = tree.DEVICES[name]["class"] in ("apu", "integrated")

    assert (opened(host, config.Drm())[1].state == "no device") is is_integrated
    assert opened(host)[1].gpus[0].integrated is is_integrated


def test_a_suspended_gpu_is_told_as_such(host):
    """A GPU that sleeps is told as suspended without one of its values, until it is awake."""
    card = host.card("rx6900xt")
    suspend(card)
    source, found = opened(host)

    assert found.gpus[0].uuid == "amd-2721b09d4f3b4a38"
    assert found.gpus[0].power_limit_default_mw is None
    assert only(source) == reading.RawGpu(uuid=found.gpus[0].uuid, state="suspended")
    assert not source.stirs()

    suspend(card, "active")

    assert source.stirs()
    assert only(source).readings["utilization_percent"] == 3


def test_a_suspended_gpu_is_not_asked(host, monkeypatch):
    """BR-19: while it sleeps only its identity and its power management are read, for 5 ticks."""
    suspend(host.card("rx6900xt"))
    source, _ = opened(host)
    plain, files = os.open, set()
    monkeypatch.setattr(
        os, "open", lambda path, *more: files.add(Path(path).name) or plain(path, *more)
    )

    for _ in range(5):
        source.read()
        source.stirs()

    assert files == {"uevent", "runtime_status"}


def test_the_cards_number_is_not_its_identity(tmp_path):
    """BR-17: when a card is gone after a boot, the others keep their UUIDs under new numbers."""
    first, second = tree.Tree(tmp_path / "1"), tree.Tree(tmp_path / "2")
    first.card("rx6600", 0)
    first.card("mi100", 1)
    second.card("mi100", 0)

    (_, before), (_, after) = opened(first), opened(second)

    assert [before.gpus[1].uuid] == [gpu.uuid for gpu in after.gpus]


def test_a_sleeping_gpu_does_not_hide_the_others(host):
    """One GPU asleep and one awake: the one is suspended, the other read."""
    suspend(host.card("rx6900xt", 0))
    host.card("mi100", 1)
    source, _ = opened(host)

    asleep, awake = source.read()[0].gpus

    assert asleep.state == "suspended"
    assert awake.readings["power_mw"] == 36_000
    assert source.stirs()


def test_two_equal_cards_are_two_gpus(host):
    """Cards of one model differ by their slot; an id that both claim names neither."""
    host.card("rx6600", 0)
    host.card("rx6600", 1, slot="0000:13:00.0")
    host.card("mi100", 2)
    host.card("mi100", 3, slot="0000:84:00.0")
    source, found = opened(host)

    uuids = [gpu.uuid for gpu in found.gpus]

    assert uuids == [
        "amd-0000:12:00.0-73ff",
        "amd-0000:13:00.0-73ff",
        "amd-0000:83:00.0-738c",
        "amd-0000:84:00.0-738c",
    ]
    assert uuids == [gpu.uuid for gpu in source.read()[0].gpus]


@pytest.mark.parametrize("unique_id", ["", "0000000000000000", "not hex", "\x00\xff", "-1"])
def test_a_unique_id_that_is_none_gives_no_uuid(host, unique_id):
    """Only a real id names a GPU; otherwise its slot and model do."""
    host.card("mi100", files={"device/unique_id": unique_id})

    assert opened(host)[1].gpus[0].uuid == "amd-0000:83:00.0-738c"


def test_a_card_that_goes_is_not_in_the_next_observation(host):
    """A card taken away is missing from a complete observation; the others stay."""
    gone = host.card("rx6600", 0)
    host.card("mi100", 1)
    source, found = opened(host)
    shutil.rmtree(gone)

    (observation,) = source.read()

    assert observation.complete
    assert [found.gpus[1].uuid] == [gpu.uuid for gpu in observation.gpus]


def test_a_card_that_goes_while_it_is_read_is_not_told(host, monkeypatch):
    """Values of a card that vanished meanwhile are not told as unsupported."""
    card = host.card("rx6600")
    source, _ = opened(host)
    monkeypatch.setattr(
        source._clients, "look", lambda slots: shutil.rmtree(card) or dict.fromkeys(slots, USE)
    )

    assert source.read()[0].gpus == ()


USE = cards.cards_clients.Use()


def test_a_card_that_comes_is_told(host):
    """A card that is plugged in later is in the next observation, and stays when it is there."""
    host.card("rx6600", 0)
    source, _ = opened(host)
    host.card("mi100", 1)

    assert len(source.read()[0].gpus) == 2
    assert len(source.available().gpus) == 2


def test_another_card_in_the_same_place_is_another_gpu(host):
    """`card0` is not an identity: who is in it is looked at in each read."""
    first = host.card("rx6600", 0)
    source, found = opened(host)
    shutil.rmtree(first)
    host.card("mi100", 0)

    assert only(source).uuid != found.gpus[0].uuid


def test_a_bus_that_cannot_be_listed_says_so_by_no_device(host):
    """What stands in `class/drm` that is no folder is no card."""
    tree.write(host.drm / "card7", "nonsense")

    assert opened(host)[1].state == "no device"


def test_processes_go_through_the_owners(host):
    """Each GPU's processes are handed to the one who knows the pods."""
    host.card("rx6900xt")
    host.client(50, 3, ["drm-driver: amdgpu", "drm-pdev: 0000:0c:00.0", "drm-client-id: 1"])
    asked = []

    def owners(processes):
        asked.extend(processes)
        return (reading.RawProcess(pid=50, owner="pod", pod_uid="u"),)

    source, _ = opened(host, owners=owners)

    assert only(source).processes[0].pod_uid == "u"
    assert [one.pid for one in asked] == [50]


def test_after_close_it_can_be_opened_again(host):
    """A source that was closed has no cards, and finds them anew."""
    host.card("mi100")
    source, found = opened(host)
    source.close()

    assert source.available() == found
