"""A vendor in one file and one line: a whole source, through catalogue, sampler and checks.

`Acme` is what a file in `sources/` would hold, and `_acme` the line in `catalog.FACTORIES`
(with the word for `vendor` in `wire.sample`; made-up GPUs call themselves `simulated`).
"""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from edge_agent import config, sampler, telemetry, threads
from edge_agent.core import cadence, reading
from edge_agent.sources import catalog, sysfs
from wire.sample import Event, GpuInventory, Sample


class Acme:
    """GPUs of Acme: `class/acme/<n>`, with a file for each reading and the serial number."""

    name = "acme"
    finished = False
    files = {  # noqa: RUF012 - a table
        "utilization_percent": ("load_percent", sysfs.same),
        "memory_total_bytes": ("memory_bytes", sysfs.same),
        "power_mw": ("power_microwatts", sysfs.thousandth),
        "temperature_c": ("temperature_millidegrees", sysfs.celsius),
        "fan_rpm": ("fan_rpm", sysfs.same),
    }

    def __init__(self, host: config.Host) -> None:
        self._root = Path(host.sys, "class/acme")

    def _cards(self) -> dict[str, Path]:
        return {f"acme-{sysfs.plain(one / 'serial')}": one for one in sorted(self._root.glob("*"))}

    def available(self) -> reading.Availability:
        gpus = tuple(GpuInventory(uuid=uuid, vendor="simulated") for uuid in self._cards())
        return reading.Availability(state="yes" if gpus else "no device", gpus=gpus)

    def read(self) -> tuple[reading.Observation, ...]:
        gpus = tuple(
            reading.RawGpu(
                uuid=uuid,
                readings={
                    field: sysfs.scaled(sysfs.number(card / file), scale)
                    for field, (file, scale) in self.files.items()
                },
            )
            for uuid, card in self._cards().items()
        )
        return (reading.Observation(gpus=gpus),)

    def close(self) -> None: ...


def _acme(settings: config.Settings, _place: catalog.Place, _say: object) -> catalog.Source:
    return Acme(settings.host)


# --------------------------------------------------------------------------- end of the example


@pytest.fixture
def cards(tmp_path):
    """Two cards in a tree; the second has no fan, and lies about its temperature."""
    for number, more in enumerate(({"fan_rpm": "1200"}, {"temperature_millidegrees": "999000"})):
        card = tmp_path / f"sys/class/acme/{number}"
        card.mkdir(parents=True)
        files = {
            "serial": f"A{number}",
            "load_percent": "42",
            "memory_bytes": "8589934592",
            "power_microwatts": "75500000",
            "temperature_millidegrees": "61000",
        } | more
        for name, said in files.items():
            (card / name).write_text(f"{said}\n")
    return tmp_path / "sys/class/acme"


@pytest.fixture
async def records(cards, monkeypatch):
    """What the sampler makes of the source that the catalogue makes."""
    monkeypatch.setattr(catalog, "FACTORIES", {"auto": (_acme,)})
    found = []
    say = telemetry.Telemetry(telemetry.Metrics(CollectorRegistry()), "demo", "edge-01")
    place = catalog.Place(node="edge-01", index=0, node_count=1)
    settings = config.Settings(host=config.Host(sys=str(cards.parents[1])))
    readers = threads.Threads("read", 1)

    async def sink(some, _memory):
        found.extend(some)
        return 100 * len(some)

    one = sampler.Sampler(
        catalog.make(settings, place, say),
        limits=cadence.Limits(tick_ms=50, idle_ms=50, asleep_ms=50),
        phase_ms=0,
        readers=readers,
        say=say,
        sink=sink,
        status_changed=lambda: None,
        latest=lambda _one: None,
        remembered=b"",
        boot_id="boot-1",
    )
    task = asyncio.ensure_future(one.run())
    yield found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    readers.close()


async def until(happened):
    """Wait for it, for as long as a test may."""
    async with asyncio.timeout(2):
        while not happened():  # noqa: ASYNC110 - no event for each question
            await asyncio.sleep(0.005)


async def test_a_vendor_is_one_file_and_one_line(records):
    """Values, absent ones, impossible ones: the source only says what it read, and the rest
    is the agent's: null for the fan that is not there, null and counted for 999 degrees.
    """
    await until(lambda: [one for one in records if isinstance(one, Sample) and one.gpus])
    sample = next(one for one in records if isinstance(one, Sample) and one.gpus)
    first, second = sample.gpus

    assert (first.uuid, second.uuid) == ("acme-A0", "acme-A1")
    assert (first.utilization_percent, first.power_mw, first.temperature_c) == (42, 75_500, 61)
    assert (first.fan_rpm, second.fan_rpm) == (1200, None)
    assert second.temperature_c is None
    assert second.errors == {}
    assert sample.invalid_count == 1


async def test_a_card_that_is_pulled_is_lost_without_the_source_knowing(records, cards):
    """BR-21: the other goes on, and the event is made by the agent from what is missing."""
    await until(lambda: [one for one in records if isinstance(one, Sample) and one.gpus])
    (cards / "1").rename(cards.parent / "pulled")
    await until(lambda: [one for one in records if isinstance(one, Event)])
    lost = next(one for one in records if isinstance(one, Event))

    assert (lost.event, lost.gpu_uuid) == ("gpu-lost", "acme-A1")
    last = [one for one in records if isinstance(one, Sample)][-1]
    assert next((gpu.uuid, gpu.state) for gpu in last.gpus) == ("acme-A0", "ok")


def test_the_example_is_short():
    """A person can write it in one sitting: about 40 lines."""
    text = Path(__file__).read_text()
    lines = text[text.index("class Acme") : text.index("# ----")].strip().splitlines()

    assert len([line for line in lines if line]) <= 40


def test_the_example_is_a_source(tmp_path):
    """It has all that the catalogue asks for, and says so when there is nothing to read."""
    source: catalog.Source = Acme(config.Host(sys=str(tmp_path)))

    assert not source.finished
    assert source.available().state == "no device"
    source.close()
