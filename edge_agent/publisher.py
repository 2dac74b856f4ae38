"""One session with the broker: MQTT 5 by paho, driven by the event loop.

paho's own thread and queue are not used. Its sockets are watched by the loop, and what
may be in flight is decided outside, so nothing is ever queued inside it. A session is
made for one connection and never reconnects: the next one starts clean, so paho cannot
send anything again by itself. Connecting blocks (names, TCP, TLS) and runs on a thread.

paho's exceptions and callbacks end here. Whatever goes wrong after the session is open
comes out once, as `lost(reason)`.
"""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import paho.mqtt.client as paho
from msgspec import Struct
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from edge_agent import config, threads
from edge_agent.errors import LinkError
from wire.topics import CONTENT_TYPE

HOUSEKEEPING_SHARE: Final = 0.25  # of the keepalive: a ping is at most that much late
ANSWER_TIMEOUT_S: Final = 15.0
GOODBYE_S: Final = 0.5
PACKET_BYTES_MAX: Final = 268_435_455
IN_FLIGHT_MAX: Final = 65_535
RECEIVE_MAXIMUM: Final = 20


class Greeting(Struct, frozen=True):
    """What the broker allows in this session."""

    in_flight_max: int
    packet_bytes_max: int


class Will(Struct, frozen=True):
    """What the broker says, retained, when we vanish."""

    topic: str
    payload: bytes
    message_id: str


class Listener(Struct, frozen=True):
    """Who is told: an answer to a publish, a message for us, the end of the session."""

    acked: Callable[[int, int], None]
    heard: Callable[[bytes], None]
    lost: Callable[[str], None]


class Session:
    """One connection to the broker."""

    def __init__(
        self, settings: config.Mqtt, client_id: str, will: Will, listener: Listener
    ) -> None:
        self._settings = settings
        self._client_id = client_id
        self._will = will
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._client: paho.Client | None = None
        self._sock: Any = None
        self._is_over = False
        self._is_leaving = False
        self._closed = asyncio.Event()
        self._greeted: asyncio.Future[Greeting] = self._loop.create_future()
        self._subscribed: asyncio.Future[int] = self._loop.create_future()
        self._housekeeping: asyncio.TimerHandle | None = None

    async def open(self, connecting: threads.Threads) -> Greeting:
        """Connect and wait for the broker's greeting; raises `LinkError`."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                self._client = await connecting.run(self._connect)
                if self._is_over:
                    raise LinkError("closed while connecting")
                self._keep_house()
                return await self._greeted
        except TimeoutError as error:
            raise LinkError(f"no answer in {ANSWER_TIMEOUT_S:.0f} s") from error

    async def subscribe(self, topic: str) -> int:
        """Listen to a topic; the broker's reason code (0x80 and above: refused)."""
        client = self._alive()
        client.subscribe(topic, options=SubscribeOptions(qos=1))
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await self._subscribed
        except TimeoutError as error:
            raise LinkError("no answer to a subscription") from error

    def publish(self, topic: str, payload: bytes, message_id: str, *, retain: bool) -> int:
        """Send at QoS 1; returns paho's number of the message. Raises `LinkError`."""
        info = self._alive().publish(
            topic, payload, qos=1, retain=retain, properties=_properties(message_id)
        )
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise LinkError(paho.error_string(info.rc))
        return info.mid

    async def close(self, *, politely: bool) -> None:
        """End the session: with a DISCONNECT, or as if the cable were cut."""
        client = self._client
        if politely and client is not None and not self._is_over:
            self._is_leaving = True
            client.disconnect()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    await self._closed.wait()  # paho has written it and told `_on_disconnect`
        if not self._is_over:
            self._end()

    def _alive(self) -> paho.Client:
        if self._client is None or self._is_over:
            raise LinkError("the session is over")
        return self._client

    def _connect(self) -> paho.Client:
        """Blocking part; runs on a thread."""
        settings = self._settings
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            protocol=paho.MQTTv5,
            reconnect_on_failure=False,
        )
        client.max_inflight_messages_set(IN_FLIGHT_MAX)
        will = self._will
        client.will_set(
            will.topic,
            will.payload,
            qos=1,
            retain=True,
            properties=_properties(will.message_id, PacketTypes.WILLMESSAGE),
        )
        client.on_socket_open = self._on_socket_open
        client.on_socket_close = self._on_socket_close
        client.on_socket_register_write = self._on_register_write
        client.on_socket_unregister_write = self._on_unregister_write
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_publish = self._on_publish
        client.on_message = self._on_message
        client.on_disconnect = self._on_disconnect
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.ReceiveMaximum = RECEIVE_MAXIMUM
        try:
            self._identify(client)
            client.connect(
                settings.host,
                settings.port,
                keepalive=settings.keepalive_s,
                clean_start=True,
                properties=properties,
            )
        except (OSError, ValueError) as error:
            raise LinkError(f"cannot connect: {error}") from error
        return client

    def _identify(self, client: paho.Client) -> None:
        """Password and certificates, read anew for each session, because they are rotated."""
        settings = self._settings
        if settings.username:
            password = None
            if settings.password_file:
                password = Path(settings.password_file).read_text(encoding="utf-8").rstrip("\r\n")
            client.username_pw_set(settings.username, password)
        if settings.tls_ca_file or settings.tls_cert_file:
            client.tls_set(
                ca_certs=settings.tls_ca_file or None,
                certfile=settings.tls_cert_file or None,
                keyfile=settings.tls_key_file or None,
            )

    # The loop's side: sockets and time.

    def _on_socket_open(self, _client: paho.Client, _userdata: object, sock: Any) -> None:
        self._on_loop(self._watch, sock)

    def _watch(self, sock: Any) -> None:
        if self._is_over:
            sock.close()
            return
        self._sock = sock
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop.add_reader(sock, self._read)

    def _on_socket_close(self, _client: paho.Client, _userdata: object, sock: Any) -> None:
        self._forget(sock)

    def _on_register_write(self, _client: paho.Client, _userdata: object, sock: Any) -> None:
        self._on_loop(self._watch_write, sock)

    def _on_loop(self, call: Callable[[Any], None], sock: Any) -> None:
        """Now, or as soon as the loop can when this is the thread that connects."""
        if threading.get_ident() == self._loop_thread:
            call(sock)
        else:
            self._loop.call_soon_threadsafe(call, sock)

    def _watch_write(self, sock: Any) -> None:
        if not self._is_over and sock.fileno() >= 0:
            self._loop.add_writer(sock, self._write)

    def _on_unregister_write(self, _client: paho.Client, _userdata: object, sock: Any) -> None:
        self._loop.remove_writer(sock)

    def _read(self) -> None:
        client = self._client
        if client is None:
            return  # the thread has not handed it over; the socket stays readable
        self._guard(client.loop_read)
        while isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            self._guard(client.loop_read)

    def _write(self) -> None:
        if self._client is not None:
            self._guard(self._client.loop_write)

    def _keep_house(self) -> None:
        if self._is_over or self._client is None:
            return
        self._guard(self._client.loop_misc)
        self._housekeeping = self._loop.call_later(
            self._settings.keepalive_s * HOUSEKEEPING_SHARE, self._keep_house
        )

    def _guard(self, call: Callable[[], object]) -> None:
        """A fault inside paho or a listener ends this session, never the loop."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever it is, a new session is the cure
            self._lose(f"internal: {error!r}")

    # paho's side: what the broker says.

    def _on_connect(
        self, _client: object, _userdata: object, _flags: object, reason: Any, properties: Any
    ) -> None:
        if self._greeted.done():
            return
        if reason.is_failure:
            self._lose(f"refused: {reason}")
            return
        self._greeted.set_result(
            Greeting(
                getattr(properties, "ReceiveMaximum", IN_FLIGHT_MAX),
                getattr(properties, "MaximumPacketSize", PACKET_BYTES_MAX),
            )
        )

    def _on_subscribe(
        self, _client: object, _userdata: object, _mid: int, reasons: Any, _properties: object
    ) -> None:
        if not self._subscribed.done():
            self._subscribed.set_result(reasons[0].value)

    def _on_publish(
        self, _client: object, _userdata: object, mid: int, reason: Any, _properties: object
    ) -> None:
        self._listener.acked(mid, reason.value)

    def _on_message(self, _client: object, _userdata: object, message: Any) -> None:
        self._listener.heard(bytes(message.payload))

    def _on_disconnect(
        self, _client: object, _userdata: object, _flags: object, reason: Any, _properties: object
    ) -> None:
        self._lose(str(reason))

    def _lose(self, reason: str) -> None:
        if self._is_over:
            return
        self._end()
        for waiting in (self._greeted, self._subscribed):
            if not waiting.done():
                waiting.set_exception(LinkError(reason))
                waiting.exception()  # it may be that nobody waits
        if not self._is_leaving:
            self._listener.lost(reason)

    def _end(self) -> None:
        self._is_over = True
        self._closed.set()
        if self._housekeeping is not None:
            self._housekeeping.cancel()
        if self._sock is not None:
            sock = self._sock
            self._forget(sock)
            sock.close()
        if self._client is not None:
            self._client.on_socket_close = None
            self._client.on_socket_unregister_write = None
        self._client = None

    def _forget(self, sock: Any) -> None:
        self._sock = None
        if sock.fileno() >= 0:
            self._loop.remove_reader(sock)
            self._loop.remove_writer(sock)


def overhead_bytes(topic: str, message_id: str) -> int:
    """What a PUBLISH packet weighs beside its payload, at most."""
    pairs = (("id", message_id), ("content-type", CONTENT_TYPE))
    properties = sum(5 + len(name) + len(value.encode()) for name, value in pairs)
    return 1 + 4 + 2 + len(topic.encode()) + 2 + 3 + properties


def _properties(message_id: str, kind: int = PacketTypes.PUBLISH) -> Properties:
    properties = Properties(kind)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("id", message_id), ("content-type", CONTENT_TYPE)]
    return properties
