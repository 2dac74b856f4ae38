"""The table of sources. A new vendor is one file here and one line in `FACTORIES`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

from edge_agent import config, telemetry
from edge_agent.core import reading
from edge_agent.sources import cards, jetson, kmsg, pods, recorded, simulated
from edge_agent.sources.nvml import source as nvml


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


@runtime_checkable
class Herald(Protocol):
    """A source that hears of events between two reads. It calls the `wake` of its `Place`
    from any thread; `news` then gives what came, once, and never blocks.
    """

    def news(self) -> Sequence[reading.RawEvent]: ...


@runtime_checkable
class Sleeper(Protocol):
    """A source whose GPUs may sleep: `stirs` says, without waking one, whether one woke up."""

    def stirs(self) -> bool: ...


@runtime_checkable
class SelfWatched(Protocol):
    """A source that watches its own calls, device by device: a read may take so long."""

    @property
    def patience_ms(self) -> int: ...


class Place(Struct, frozen=True, kw_only=True):
    """For which agent a source is made: its node, which of how many it is, and its bell."""

    node: str
    index: int
    node_count: int
    wake: Callable[[], None] = lambda: None


Factory = Callable[[config.Settings, Place, telemetry.Telemetry], Source]


def _nvml(settings: config.Settings, place: Place, _say: telemetry.Telemetry) -> Source:
    return nvml.Nvml(
        settings=settings.nvml,
        owners=pods.Pods(settings.host),
        wake=place.wake,
        sys_root=settings.host.sys,
    )


def _kmsg(settings: config.Settings, place: Place, _say: telemetry.Telemetry) -> Source:
    return kmsg.Kmsg(host=settings.host, wake=place.wake)


def _drm(settings: config.Settings, _place: Place, _say: telemetry.Telemetry) -> Source:
    return cards.Cards(settings.drm, host=settings.host, owners=pods.Pods(settings.host))


def _jetson(settings: config.Settings, _place: Place, _say: telemetry.Telemetry) -> Source:
    return jetson.Jetson(host=settings.host)


def _simulated(settings: config.Settings, place: Place, say: telemetry.Telemetry) -> Source:
    return simulated.Simulated(
        settings.simulated,
        place.node,
        tick_ms=settings.tick_ms,
        skipped=say.control_line_skipped,
    )


def _recorded(settings: config.Settings, place: Place, _say: telemetry.Telemetry) -> Source:
    return recorded.Recorded(settings.recorded, index=place.index, node_count=place.node_count)


FACTORIES: Final[Mapping[str, tuple[Factory, ...]]] = {
    "auto": (_nvml, _kmsg, _drm),
    "nvml": (_nvml, _kmsg),
    "drm": (_drm,),
    "jetson": (_jetson,),
    "simulated": (_simulated,),
    "recorded": (_recorded,),
}
SOURCES_MAX: Final = max(len(some) for some in FACTORIES.values())


def make(settings: config.Settings, place: Place, say: telemetry.Telemetry) -> tuple[Source, ...]:
    """The sources of one agent, as configured."""
    factories = FACTORIES[settings.source.kind]
    return tuple(factory(settings, place, say) for factory in factories)
