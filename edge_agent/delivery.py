"""Delivery: the shell around the outbox, from the spool to the broker and back.

It feeds the outbox with what happens (rows written, answers, confirmations, time) and
does what the outbox decides. Connections come and go; each is met with the birth
record, and left, when there is time, with a death.
"""

import asyncio
import functools
import random
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

import msgspec

from edge_agent import config, publisher, telemetry, threads
from edge_agent import spool as spools
from edge_agent.core import backoff, outbox, parcels
from edge_agent.errors import LinkError, SpoolError
from wire import codec, names, topics
from wire.errors import WireError
from wire.sample import Record, Status

NO_SUBSCRIBER: Final = 0x10
GOODBYE_TIMEOUT_S: Final = 1.5
SLACK_BYTES: Final = 32
SHORT_LIVES_SUSPECT: Final = 2
UNCONFIRMED_LEAST: Final = 64
UNCONFIRMED_S: Final = 3.2  # what the sweep may be ahead of the confirmations, which take about 1 s
BACKLOG_SPREAD_MS: Final = 1000
TIMER_LEAST_S: Final = 0.005


class Message(msgspec.Struct, frozen=True):
    """An envelope and its id."""

    payload: bytes
    id: str


class Delivery:
    """Carries the records of one agent to the broker until it is told to stop."""

    def __init__(
        self,
        settings: config.Mqtt,
        *,
        cluster: str,
        node: str,
        spool: spools.Spool,
        disk: threads.Threads,
        connecting: threads.Threads,
        say: telemetry.Telemetry,
        birth: Callable[[], Status],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._node = node
        self._spool = spool
        self._disk = disk
        self._connecting = connecting
        self._say = say
        self._birth = birth
        self._topics = {lane: topics.mqtt_topic(cluster, node, lane) for lane in topics.LANES}
        self._id_prefix = f"{names.node_key(cluster, node)}/{spool.epoch}/"
        self._session: publisher.Session | None = None
        self._lost: asyncio.Future[str] | None = None
        self._tokens: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._farewell: asyncio.Future[None] | None = None
        self._up_ms: int | None = None
        self._client_id = f"windvane-agent-{cluster}-{node}"
        self._backoff = backoff.Backoff(
            min_ms=settings.backoff_min_ms, max_ms=settings.backoff_max_ms
        )
        self._state = parcels.State(
            limits=self._limits(), highest_seq=spool.highest_seq, events=self._old_events()
        )

    def _limits(self) -> parcels.Limits:
        settings = self._settings
        envelope = codec.encode_envelope(
            cluster=self._cluster,
            node=self._node,
            epoch=self._spool.epoch,
            sent_unix_ms=_wall_ms(),
            records=(),
        )
        packet = publisher.overhead_bytes(self._topics["backlog"], self._id_prefix)
        return parcels.Limits(
            in_flight_max=settings.in_flight_max,
            message_bytes_max=settings.message_bytes_max,
            overhead_bytes=len(envelope) + packet + SLACK_BYTES,
            confirm_timeout_ms=settings.confirm_timeout_ms,
            ack_timeout_ms=settings.ack_timeout_ms,
            backlog_interval_ms=max(1, round(1000 / settings.backlog_messages_per_s)),
            backlog_unconfirmed_max=max(
                UNCONFIRMED_LEAST, round(UNCONFIRMED_S * settings.backlog_messages_per_s)
            ),
        )

    def _old_events(self) -> tuple[parcels.Pending, ...]:
        """Events of before the start that are still news, their age on this clock."""
        offset_ms = _now_ms() - _wall_ms()
        limits = self._limits()
        return tuple(
            parcels.Pending(msgspec.structs.replace(row, at_ms=row.at_ms + offset_ms))
            for row in self._spool.latest_events(limits.events_max)
        )

    async def run(self) -> None:
        """Connect, serve, wait, again; until cancelled."""
        while True:
            self._up_ms = None
            reason = await self._serve_once()
            if self._up_ms is not None:
                lasted_ms = _now_ms() - self._up_ms
                self._backoff = backoff.after_connection(self._backoff, lasted_ms)
                if self._backoff.tries >= SHORT_LIVES_SUSPECT:
                    reason += f"; sessions do not last: is {self._client_id} in use twice?"
            jitter = random.random()  # noqa: S311 - spreads a fleet, hides nothing
            self._backoff, wait_ms = backoff.after_failure(self._backoff, jitter)
            self._say.link_down(reason, wait_ms)
            await asyncio.sleep(wait_ms / 1000)

    def appended(self, rows: tuple[parcels.Row, ...]) -> None:
        """Rows that are on disk now."""
        now_ms = _now_ms()
        stamped = (msgspec.structs.replace(row, at_ms=now_ms) for row in rows)
        self._step(parcels.Appended(tuple(stamped)))

    def status_changed(self) -> None:
        """The birth record would say something else now."""
        self._step(parcels.StatusChanged(codec.encode(self._birth())))

    async def goodbye(self, reason: str) -> None:
        """Say that this death is meant and close; what is not delivered stays in the spool."""
        session, self._session = self._session, None
        if session is None:
            return
        self._farewell = asyncio.get_running_loop().create_future()
        try:
            death = self._status(self._death(reason))
            session.publish(self._topics["status"], death.payload, death.id, retain=True)
            async with asyncio.timeout(GOODBYE_TIMEOUT_S):
                await self._farewell
        except (LinkError, TimeoutError):
            pass
        await session.close(politely=True)

    def close(self) -> None:
        """No more timers; nothing is sent after this."""
        if self._timer is not None:
            self._timer.cancel()

    async def _serve_once(self) -> str:
        """One session from beginning to end; the reason why it ended."""
        self._lost = asyncio.get_running_loop().create_future()
        self._tokens.clear()
        session = publisher.Session(
            self._settings,
            self._client_id,
            self._will(),
            publisher.Listener(self._acked, self._heard, self._is_lost),
        )
        try:
            greeting = await session.open(self._connecting)
            code = await session.subscribe(
                topics.mqtt_topic(self._cluster, self._node, "confirmed")
            )
            if code >= outbox.REFUSED_FROM:
                self._say.subscription_refused(code)
            self._session = session
            self._link_up(greeting)
            return await self._lost
        except LinkError as error:
            return str(error)
        finally:
            self._session = None
            await session.close(politely=False)
            self._step(parcels.LinkDown())
            for task in self._tasks:
                task.cancel()

    def _link_up(self, greeting: publisher.Greeting) -> None:
        self._up_ms = _now_ms()
        self._say.link_up(
            in_flight_max=greeting.in_flight_max, packet_bytes_max=greeting.packet_bytes_max
        )
        spread_ms = BACKLOG_SPREAD_MS * random.random()  # noqa: S311 - spreads a fleet
        self._step(
            parcels.LinkUp(
                in_flight_max=greeting.in_flight_max,
                packet_bytes_max=greeting.packet_bytes_max,
                status=codec.encode(self._birth()),
                backlog_delay_ms=int(spread_ms),
            )
        )

    def _step(self, event: parcels.Event) -> None:
        self._state, actions = outbox.step(self._state, event, _now_ms())
        for action in actions:
            self._perform(action)
        self._set_timer()

    def _perform(self, action: parcels.Action) -> None:
        match action:
            case parcels.Publish():
                self._publish(action)
            case parcels.ReadBacklog():
                self._spawn(self._read_backlog(action))
            case parcels.Delete(ranges):
                self._spool.confirm(ranges)
            case parcels.Drop(seq):
                self._say.oversize(seq, "ours")
                self._spawn(self._drop(seq))
            case parcels.Held(seq):
                self._say.oversize(seq, "broker")
            case parcels.Refused(lane, reason_code):
                self._say.refused(lane, reason_code)
            case parcels.Reconnect(reason):
                self._is_lost(reason)

    def _publish(self, action: parcels.Publish) -> None:
        if self._session is None:
            return  # leaving, or the loss of the session is on its way to the outbox
        if action.lane == "status":
            message = self._status(codec.decode_record(action.bodies[0]))
        else:
            message = self._message(action.bodies, topics.seqs_text(action.seqs))
        try:
            mid = self._session.publish(
                self._topics[action.lane],
                message.payload,
                message.id,
                retain=action.lane == "status",
            )
        except LinkError as error:
            self._is_lost(str(error))
            return
        self._tokens[mid] = action.token
        self._say.published(action.lane)

    async def _read_backlog(self, action: parcels.ReadBacklog) -> None:
        read = functools.partial(self._spool.read, action.from_seq, action.to_seq, action.bytes_max)
        try:
            rows = await self._disk.run(read)
        except SpoolError as error:
            self._say.spool_failed(error, 0)
            rows = ()
        self._step(parcels.BacklogRead(action.sweep_id, rows))

    async def _drop(self, seq: int) -> None:
        detail = f"more than message_bytes_max {self._settings.message_bytes_max}"
        drop = functools.partial(self._spool.drop, [seq], "oversize", detail)
        try:
            committed = await self._disk.run(drop)
        except SpoolError as error:
            self._say.spool_failed(error, 0)
            return
        self._say.committed(committed)
        self.appended(committed.rows)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """A fault of our own: `run` raises it, and the agent is started anew."""
        if self._lost is not None and not self._lost.done():
            self._lost.set_exception(error)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_ms = outbox.wake_ms(self._state)
        if wake_ms is not None:
            delay_s = max(TIMER_LEAST_S, (wake_ms - _now_ms()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._woken)

    def _woken(self) -> None:
        try:
            self._step(parcels.Woken())
        except Exception as error:  # noqa: BLE001 - a timer has no caller to raise to
            self._fail(error)

    # What the session tells.

    def _is_lost(self, reason: str) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(reason)

    def _acked(self, mid: int, reason_code: int) -> None:
        if reason_code == NO_SUBSCRIBER:
            self._say.unheard()
        token = self._tokens.pop(mid, None)
        if token is not None:
            self._step(parcels.Acked(token, reason_code))
        elif self._farewell is not None and not self._farewell.done():
            self._farewell.set_result(None)

    def _heard(self, payload: bytes) -> None:
        try:
            confirmation = codec.decode_confirmation(payload)
        except WireError as error:
            self._say.confirmation_malformed(str(error))
            return
        if confirmation.epoch != self._spool.epoch:
            self._say.confirmation_foreign(confirmation.epoch)
            return
        self._step(parcels.Confirmed(confirmation.ranges))

    # What is said.

    def _message(self, bodies: Iterable[bytes], tail: str) -> Message:
        payload = codec.encode_envelope(
            cluster=self._cluster,
            node=self._node,
            epoch=self._spool.epoch,
            sent_unix_ms=_wall_ms(),
            records=bodies,
        )
        return Message(payload, self._id_prefix + tail)

    def _status(self, status: Record) -> Message:
        return self._message((codec.encode(status),), f"status-{status.ts_unix_ms}")

    def _death(self, reason: str) -> Status:
        return Status(
            ts_unix_ms=_wall_ms(),
            state="death",
            agent_version=self._birth().agent_version,
            reason=reason,
        )

    def _will(self) -> publisher.Will:
        death = self._status(self._death("connection lost"))
        return publisher.Will(self._topics["status"], death.payload, death.id)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
