"""The processor put together: one Faust app, two steps, one writer, one page.

Everything is built here at run time from settings; there is no module-global app, so two
processors can live in one process (tests do). Faust brings records, tables, the group and
the web server; a few tasks of ours beside it tick the steps, write state and watch
progress. Whatever fails for good ends `run` with an exception: the process exits, its
supervisor starts it again, and it goes on where the acknowledged state ends.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import prometheus_client as prom

from cloud_processor import config
from cloud_processor import telemetry as tell
from cloud_processor.kube import results, steering
from cloud_processor.streams import engine, log, nodes, outlet, pools, tables
from cloud_processor.web import fleet, health, pages
from wire import topics

if TYPE_CHECKING:
    import faust

TICK_S = 0.25
WATCH_S = 2.0
KAFKA_WAIT_S = 60.0
STOP_FLUSH_S = 2.0
STALL_MIN_S = 30.0


class Processor:
    """All parts of one worker, wired."""

    def __init__(self, settings: config.Settings, *, replication: int = 1) -> None:
        self.settings = settings
        self.telemetry = tell.Telemetry(prom.CollectorRegistry())
        self.app: faust.App = engine.faust_app(settings, replication)
        self.outlet = outlet.Outlet(self.app, settings.kafka.partitions)
        self.directory, self.writer = steering.build(settings, self.telemetry, self._answer)
        self.nodes = nodes.NodeStep(
            states=tables.table(self.app, tables.NODE_STATE, settings),
            windows=tables.table(self.app, tables.WINDOWS, settings),
            outlet=self.outlet,
            rules=settings.policy,
            pool_of=self.directory.pool_of,
            telemetry=self.telemetry,
            ack=self._ack,
        )
        self.pools = pools.PoolStep(
            states=tables.table(self.app, tables.POOL_STATE, settings),
            outlet=self.outlet,
            writer=self.writer,
            rules=settings.policy,
            telemetry=self.telemetry,
            ack=self._ack,
        )
        self.fleet = fleet.Fleet(self.nodes.arrival_of)
        stall_s = max(STALL_MIN_S, 4 * settings.state.flush_ms / 1000)
        self.health = health.Health(stall_s=stall_s, now_s=time.monotonic())
        self._attach()
        self._failed: asyncio.Future[None] | None = None
        self._ending = False
        self._tasks: set[asyncio.Task[None]] = set()

    def _attach(self) -> None:
        app = self.app
        inputs = app.topic(*nodes.INPUTS, **engine.RAW)
        verdicts = app.topic(topics.VERDICTS, **engine.RAW)
        app.agent(inputs, name="nodes")(self._agent(self.nodes.run))
        app.agent(verdicts, name="pools")(self._agent(self.pools.run))
        app.on_partitions_revoked.connect(self._revoked, weak=False)
        app.on_rebalance_complete.connect(self._assigned, weak=False)
        app.transport.before_revoke = self.flush
        pages.attach(app, view=self.fleet, state=self.health, registry=self.telemetry.registry)

    def _agent(self, run: Callable[[Any], Awaitable[None]]) -> Any:
        async def agent(stream: Any) -> None:
            try:
                await run(stream)
            except Exception as error:
                self._fail(error)
                raise

        return agent

    def _ack(self, message: Any) -> None:
        message.ack(self.app.consumer)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; raises what made it impossible to go on."""
        loop = asyncio.get_running_loop()
        self.app.loop = loop
        self._loop = loop
        self._failed = loop.create_future()
        self.directory.start()
        self.writer.start()
        self._spawn(self._reader().run())
        starting = asyncio.ensure_future(self.app.start())
        stopping = asyncio.ensure_future(stop.wait())
        crashed = asyncio.ensure_future(self.app._crashed.wait())  # noqa: SLF001 - mode's own
        starting.add_done_callback(self._started)
        try:
            await asyncio.wait(
                {stopping, crashed, self._failed}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            await self._end(starting, (stopping, crashed))
        if self._failed.done():
            self._failed.result()
        reason = self.app._crash_reason  # noqa: SLF001 - mode's own
        if not stop.is_set() and reason is not None:
            raise reason

    def _started(self, starting: "asyncio.Future[Any]") -> None:
        if starting.cancelled() or self._ending:
            return
        error = starting.exception()
        if error is not None:
            self._fail(error)
            return
        flush_s = self.settings.state.flush_ms / 1000
        self._spawn(_every(TICK_S, self.nodes.tick))
        self._spawn(_every(TICK_S, self.pools.tick))
        self._spawn(_every(WATCH_S, self._watch))
        self._spawn(_every(flush_s, self.flush))

    async def _end(self, starting: Any, waits: Any) -> None:
        self._ending = True
        for task in (*self._tasks, *waits):
            task.cancel()
        if self.app.started and starting.done():
            with contextlib.suppress(Exception):
                async with asyncio.timeout(STOP_FLUSH_S):
                    await self.flush()
                    await self.app.consumer.commit()
        await self.app.stop()
        starting.cancel()
        self.writer.stop()
        self.directory.stop()
        await asyncio.gather(starting, *self._tasks, *waits, return_exceptions=True)

    async def flush(self) -> None:
        """Write the state of both steps and acknowledge what it covers."""
        await self.nodes.flush()
        await self.pools.flush()

    async def _revoked(self, _app: Any, revoked: Any, **_: Any) -> None:
        if revoked:
            self.nodes.disown()
            self.pools.disown()
        self.health.recovering(time.monotonic())

    async def _assigned(self, _app: Any, **_: Any) -> None:
        assigned = self.app.consumer.assignment()
        live = {tp.partition for tp in assigned if tp.topic == topics.LIVE}
        verdicts = {tp.partition for tp in assigned if tp.topic == topics.VERDICTS}
        self.nodes.own(live, log.key_partitioner(self.settings.kafka.partitions))
        ends = await self.app.consumer.highwaters(
            *(tp for tp in assigned if tp.topic == topics.LIVE)
        )
        self.nodes.catch_up({tp.partition: end or 0 for tp, end in ends.items()})
        self.pools.own(verdicts)
        self.health.ready()

    async def _watch(self) -> None:
        offsets = self.app.consumer.offsets()
        self.health.observe(
            {(tp.topic, tp.partition): place for tp, place in offsets.items()}, time.monotonic()
        )
        for topic, lag in self.health.lag_by_topic().items():
            self.telemetry.lag(topic, lag)
        for tp, (committed, _) in offsets.items():
            if tp.topic == topics.LIVE:
                self.nodes.reached(tp.partition, committed)

    def _reader(self) -> log.FleetReader:
        kafka = self.settings.kafka
        return log.FleetReader(
            bootstrap=kafka.bootstrap,
            partitions=kafka.partitions,
            view=self.fleet,
            telemetry=self.telemetry,
        )

    def _answer(self, result: results.Result) -> None:
        """From a writer's thread, or from within the loop."""
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody listens any more
            self._loop.call_soon_threadsafe(self._decide, result)

    def _decide(self, result: results.Result) -> None:
        self._spawn(self.pools.answered(result))

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fail(task.exception())

    def _fail(self, error: BaseException | None) -> None:
        self.telemetry.crashed(repr(error))
        if self._failed is not None and not self._failed.done() and error is not None:
            self._failed.set_exception(error)


async def serve(settings: config.Settings, stop: asyncio.Event) -> None:
    """Check Kafka, build the processor, run it."""
    kafka = settings.kafka
    telemetry = tell.Telemetry(prom.CollectorRegistry())
    checking = asyncio.ensure_future(
        log.check_topics(
            kafka.bootstrap,
            kafka.partitions,
            changelogs=[f"{settings.instance}-{name}-changelog" for name in tables.NAMES],
            wait_s=KAFKA_WAIT_S,
            telemetry=telemetry,
        )
    )
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({checking, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if stop.is_set():
        checking.cancel()
        await asyncio.wait({checking})
        return
    await Processor(settings, replication=checking.result()).run(stop)


async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        await work()
