"""The table of sources. A new vendor is one file here and one line in `FACTORIES`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from edge_agent import config, telemetry
from edge_agent.core import reading
from edge_agent.sources import nvml, recorded, simulated


class Source(Protocol):
    """Something that can be read. All methods may block; they run on a thread.

    `finished` is True when nothing will come any more. `read` raises `SourceError` when
    it cannot give anything now.
    """

    @property
    def name(self) -> str: ...

    @property
    def finished(self) -> bool: ...

    def available(self) -> reading.Availability: ...

    def read(self) -> Sequence[reading.Observation]: ...

    def close(self) -> None: ...


class Place(Struct, frozen=True, kw_only=True):
    """For which agent a source is made: its node, and which of how many it is."""

    node: str
    index: int
    node_count: int


Factory = Callable[[config.Settings, Place, telemetry.Telemetry], Source]


def _nvml(_settings: config.Settings, _place: Place, _say: telemetry.Telemetry) -> Source:
    return nvml.Nvml()


def _simulated(settings: config.Settings, place: Place, say: telemetry.Telemetry) -> Source:
    return simulated.Simulated(
        settings.simulated,
        place.node,
        tick_ms=settings.tick_ms,
        skipped=say.control_line_skipped,
    )


def _recorded(settings: config.Settings, place: Place, _say: telemetry.Telemetry) -> Source:
    return recorded.Recorded(settings.recorded, index=place.index, node_count=place.node_count)


FACTORIES: Final[Mapping[str, Factory]] = {
    "nvml": _nvml,
    "simulated": _simulated,
    "recorded": _recorded,
}


def make(settings: config.Settings, place: Place, say: telemetry.Telemetry) -> tuple[Source, ...]:
    """The sources of one agent, as configured."""
    return (FACTORIES[settings.source.kind](settings, place, say),)
