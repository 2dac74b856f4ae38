"""The bridge's tasks are watched."""

import asyncio

import prometheus_client
import pytest

from bridge import app, config, errors, forwarder, telemetry, web

PARTS = ("run_log", "run_link", "run_confirm")
FACTS = forwarder.Facts(is_linked=True, is_kafka_connected=True, open_count=0, oldest_ms=0)


class Joint:
    """A forwarder whose parts run for ever, but for one."""

    def __init__(self, ends: str, error: Exception | None) -> None:
        self._ends = ends
        self._error = error
        for name in PARTS:
            setattr(self, name, lambda name=name: self._part(name))

    async def _part(self, name: str) -> None:
        if name == self._ends:
            if self._error is not None:
                raise self._error
            return
        await asyncio.Event().wait()

    def facts(self) -> forwarder.Facts:
        return FACTS

    async def leave(self) -> int:
        return 0


async def bridge(monkeypatch: pytest.MonkeyPatch, joint: Joint, stopping: asyncio.Event) -> None:
    monkeypatch.setattr(app.forwarder, "Forwarder", lambda *_: joint)
    say = telemetry.Telemetry(prometheus_client.CollectorRegistry())
    settings = config.read({}, {"POD_NAME": "b"})
    async with asyncio.timeout(1):
        await app._bridge(settings, say, web.Health(90_000), stopping)


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_that_ends_ends_the_bridge(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """BR-83: neither half may be dead while the other looks well."""
    with pytest.raises(errors.BridgeError, match="ended by itself"):
        await bridge(monkeypatch, Joint(part, None), asyncio.Event())


async def test_its_error_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """BR-68: a refused subscription comes out as what it is."""
    with pytest.raises(errors.SubscriptionRefused):
        await bridge(
            monkeypatch, Joint("run_link", errors.SubscriptionRefused("no")), asyncio.Event()
        )


async def test_stops_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """When told to stop it leaves without an error."""
    stopping = asyncio.Event()
    stopping.set()

    await bridge(monkeypatch, Joint("", None), stopping)
