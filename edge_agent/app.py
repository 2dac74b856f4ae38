"""The wiring: any number of agents in one process, each watched and started anew.

An agent is a spool, a delivery and a sampler. The agents of a process share threads, a
Prometheus page and nothing else, so that one that dies takes no other along.
"""

import asyncio
import contextlib
import functools
import importlib.metadata
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry

from edge_agent import config, delivery, exporter, liveness, sampler, spool, telemetry, threads
from edge_agent.core import backoff, cadence
from edge_agent.errors import GiveUpError, SpoolError
from edge_agent.sources import catalog, kmsg
from wire.sample import Counted, Event, Sample, Status

LAW_INTERVAL_S: Final = 60.0
DISK_THREADS_MAX: Final = 8
CONNECT_THREADS_MAX: Final = 16
STOP_TIMEOUT_S: Final = 3.0


class Shared:
    """What the agents of a process have in common."""

    def __init__(self, settings: config.Settings, agent_count: int) -> None:
        self.settings = settings
        self.registry = CollectorRegistry()
        self.metrics = telemetry.Metrics(self.registry)
        self.latest = exporter.Latest(settings.exporter.aliases)
        self.registry.register(self.latest)
        self.disk = threads.Threads("disk", DISK_THREADS_MAX)
        self.connecting = threads.Threads("connect", CONNECT_THREADS_MAX)
        self.readers = threads.Threads("read", agent_count * catalog.SOURCES_MAX)
        self.life = liveness.Liveness()
        self.version = _version()

    def close(self) -> None:
        """Let the threads end."""
        for some in (self.disk, self.connecting, self.readers):
            some.close()


class Agent:
    """One node's agent: opened once, run until it dies or is stopped."""

    def __init__(self, shared: Shared, place: catalog.Place) -> None:
        settings = shared.settings
        self._shared = shared
        self._place = place
        self.say = telemetry.Telemetry(shared.metrics, settings.cluster, place.node)
        place = msgspec.structs.replace(place, wake=self._wake)
        self._sources = catalog.make(settings, place, self.say)
        self._spool = spool.Spool(
            Path(settings.spool_dir) / place.node,
            cluster=settings.cluster,
            node=place.node,
            bytes_max=settings.spool.bytes_max,
        )
        self._sampler = sampler.Sampler(
            self._sources,
            limits=cadence.Limits(
                tick_ms=settings.tick_ms,
                idle_ms=settings.cadence.idle_ms,
                asleep_ms=settings.cadence.asleep_ms,
                bytes_per_day=settings.cadence.bytes_per_day,
            ),
            phase_ms=settings.tick_ms * place.index // place.node_count,
            readers=shared.readers,
            say=self.say,
            sink=self._keep,
            status_changed=self._status_changed,
            latest=self._latest,
            remembered=self._spool.memory(),
            boot_id=kmsg.boot_id(settings.host),
        )
        self._delivery = delivery.Delivery(
            settings.mqtt,
            cluster=settings.cluster,
            node=place.node,
            spool=self._spool,
            disk=shared.disk,
            connecting=shared.connecting,
            say=self.say,
            birth=self._birth,
        )
        counts = self._spool.counts()
        self.say.started(self._spool.epoch, counts.spooled)
        self.say.spool_counts(counts)

    async def run(self) -> None:
        """Sample and deliver until cancelled, then say goodbye; raises when a part dies."""
        parts = (self._sampler.run, self._delivery.run, self._check_law)
        tasks = [asyncio.ensure_future(part()) for part in parts]
        reason = "shutdown"
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            reason = "failed"
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            await self._stop(tasks, reason)

    async def _stop(self, tasks: Sequence["asyncio.Future[None]"], reason: str) -> None:
        tasks[0].cancel()
        with contextlib.suppress(Exception):
            await self._delivery.goodbye(reason)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._delivery.close()
        self._shared.latest.forget(self._shared.settings.cluster, self._place.node)
        self._shared.life.forget(self._place.node)
        for source in self._sources:
            self._shared.readers.submit(source.close)  # may hang with its driver: not waited for
        with contextlib.suppress(SpoolError):
            await self._shared.disk.run(self._spool.close)
        self.say.stopped(reason)

    def close(self) -> None:
        """Let go of an agent that was never run."""
        self._spool.close()

    async def _keep(self, records: Sequence[Counted], memory: bytes | None) -> int | None:
        """A tick's records: on disk first, then on their way. Gives their size in bytes."""
        try:
            committed = await self._shared.disk.run(lambda: self._spool.commit(records, memory))
        except SpoolError as error:
            self.say.spool_failed(error, len(records))
            return None
        self.say.committed(committed)
        if committed.rows:
            self._delivery.appended(committed.rows)
        self._shared.life.ticked(self._place.node, self._sampler.wait_s)
        return sum(len(row.body) for row in committed.rows)

    async def _check_law(self) -> None:
        while True:
            try:
                holds = await self._shared.disk.run(self._spool.law_holds)
                self.say.spool_law(holds=holds)
            except SpoolError as error:
                self.say.spool_failed(error, 0)
            await asyncio.sleep(LAW_INTERVAL_S)

    def _wake(self) -> None:
        self._sampler.wake()

    def _status_changed(self) -> None:
        self._shared.life.readiness(self._place.node, self._sampler.trouble())
        self._delivery.status_changed()

    def _latest(self, one: Sample | Event) -> None:
        page, cluster = self._shared.latest, self._shared.settings.cluster
        if isinstance(one, Sample):
            page.put(cluster, self._place.node, one)
        else:
            page.event(cluster, self._place.node, one)

    def _birth(self) -> Status:
        versions, gpus = self._sampler.versions(), self._sampler.inventory()
        self._shared.latest.inventory(
            self._shared.settings.cluster, self._place.node, gpus, versions.driver_version
        )
        return Status(
            ts_unix_ms=time.time_ns() // 1_000_000,
            state="birth",
            agent_version=self._shared.version,
            sources=self._sampler.sources(),
            driver_version=versions.driver_version,
            cuda_version=versions.cuda_version,
            library_versions=dict(versions.library_versions),
            gpus=gpus,
        )


async def run(settings: config.Settings, stopping: asyncio.Event) -> None:
    """Run every agent until `stopping` is set; raises `AgentError` when one cannot start."""
    names = config.node_names(settings)
    shared = Shared(settings, len(names))
    places = [
        catalog.Place(node=node, index=index, node_count=len(names))
        for index, node in enumerate(names)
    ]
    agents: list[Agent] = []
    page: exporter.Exporter | None = None
    try:
        agents += [await shared.disk.run(functools.partial(Agent, shared, p)) for p in places]
        if settings.exporter.port:
            page = exporter.Exporter(
                settings.exporter,
                shared.registry,
                {"/healthz": shared.life.trouble, "/readyz": shared.life.unready},
            )
        tasks = [
            asyncio.ensure_future(_supervise(shared, place, agent))
            for place, agent in zip(places, agents, strict=True)
        ]
        agents = []
        tasks.append(asyncio.ensure_future(liveness.keep_beating(shared.life)))
        stop = asyncio.ensure_future(stopping.wait())
        done, _ = await asyncio.wait([stop, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (stop, *tasks):
            task.cancel()
        await asyncio.wait(tasks, timeout=STOP_TIMEOUT_S)
        for task in done - {stop}:
            task.result()
    finally:
        for agent in agents:
            agent.close()
        if page is not None:
            page.close()
        shared.close()


async def _supervise(shared: Shared, place: catalog.Place, agent: Agent | None) -> None:
    """Run an agent; when it dies, say so, wait, and make it anew. Raises `GiveUpError`."""
    wait = backoff.Backoff(min_ms=1000, max_ms=60_000)
    say = telemetry.Telemetry(shared.metrics, shared.settings.cluster, place.node)
    while True:
        started_s = time.monotonic()
        try:
            if agent is None:
                agent = await shared.disk.run(functools.partial(Agent, shared, place))
            await agent.run()
        except GiveUpError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it was, the others go on
            lasted_ms = int((time.monotonic() - started_s) * 1000)
            wait = backoff.after_connection(wait, lasted_ms)
            wait, wait_ms = backoff.after_failure(wait, random.random())  # noqa: S311
            say.died(error, wait_ms)
            agent = None
            await asyncio.sleep(wait_ms / 1000)


def _version() -> str:
    try:
        return importlib.metadata.version("windvane")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
