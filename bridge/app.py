"""The wiring: the bridge's tasks, each watched.

A task that ends by itself ends the bridge, with its reason; a supervisor starts it
again, and the broker still has all that was not acknowledged.
"""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from prometheus_client import CollectorRegistry

from bridge import config, forwarder, kafka, web
from bridge.errors import BridgeError
from bridge.telemetry import Telemetry


async def run(settings: config.Settings, stopping: asyncio.Event) -> None:
    """Bridge until `stopping` is set; raises `BridgeError` when that cannot be done."""
    telemetry = Telemetry(CollectorRegistry())
    telemetry.starting(settings.mqtt.client_id, settings.mqtt.group)
    health = web.Health(settings.web.stalled_ms)
    page = web.Page(settings.web, health, telemetry.registry) if settings.web.port else None
    try:
        if await _until(stopping, _check(settings, telemetry, health)):
            await _bridge(settings, telemetry, health, stopping)
    finally:
        if page is not None:
            await asyncio.to_thread(page.close)


async def _check(settings: config.Settings, telemetry: Telemetry, health: web.Health) -> None:
    pulse = asyncio.ensure_future(_beat(health, None, telemetry))
    try:
        await kafka.check_topics(settings.kafka, telemetry)
    finally:
        pulse.cancel()


async def _bridge(
    settings: config.Settings, telemetry: Telemetry, health: web.Health, stopping: asyncio.Event
) -> None:
    joint = forwarder.Forwarder(settings, telemetry)
    log = asyncio.ensure_future(joint.run_log())
    others = [
        asyncio.ensure_future(work)
        for work in (joint.run_link(), joint.run_confirm(), _beat(health, joint, telemetry))
    ]
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({log, *others, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (log, *others):
            if task.done():
                task.result()  # raises what ended it
                raise BridgeError("a part of the bridge has ended by itself")
        telemetry.stopped(await joint.leave())
    finally:
        for task in (stopped, *others, log):
            task.cancel()
        await asyncio.gather(stopped, *others, log, return_exceptions=True)


async def _beat(
    health: web.Health, joint: forwarder.Forwarder | None, telemetry: Telemetry
) -> None:
    while True:
        facts = joint.facts() if joint is not None else None
        health.write(facts)
        if facts is not None:
            telemetry.progress(facts.open_count, facts.oldest_ms)
        await asyncio.sleep(web.PULSE_S)


async def _until(stopping: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Do the work, or leave it when told to stop; whether it was done."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        for pending in (task, stopped):
            pending.cancel()
            with contextlib.suppress(asyncio.CancelledError, BridgeError):
                await pending
