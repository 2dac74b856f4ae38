"""One session with the broker: MQTT 5 by paho, driven by the event loop.

A session is made for one connection. It subscribes anew each time (the broker may have
lost what it knew of us) and is open only when the broker has granted every filter.
paho reconnects nothing by itself, so a packet number never outlives its connection.

paho's network thread is not used. It would take the interpreter's lock from the loop
and back four times a message; here the loop reads what the socket has, in large pieces,
and paho cuts the packets. Connecting blocks (names, TCP, TLS) and runs on a thread.

paho's exceptions and callbacks end here. Whatever goes wrong after the session is open
comes out once, as `lost(reason)`.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import paho.mqtt.client as paho
from msgspec import Struct
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from bridge import config
from bridge.errors import LinkError, SubscriptionRefused
from wire.topics import CONTENT_TYPE, shared_filters

HOUSEKEEPING_S: Final = 1.0
ANSWER_TIMEOUT_S: Final = 15.0
GOODBYE_S: Final = 0.5
READ_BYTES: Final = 65_536
PACKET_BYTES_MAX: Final = 268_435_455
IN_FLIGHT_MAX: Final = 65_535
REFUSED_FROM: Final = 0x80


class Greeting(Struct, frozen=True):
    """What the broker says of this session: is it a known one, and what does it allow."""

    session_present: bool
    in_flight_max: int
    packet_bytes_max: int


class Listener(Struct, frozen=True):
    """Who is told: a message (packet is None for QoS 0), an answer to a publish, the end."""

    arrived: Callable[[int | None, str, bytes], None]
    answered: Callable[[int, int], None]
    lost: Callable[[str], None]


class _Pieces:
    """A socket that is read in large pieces, because paho asks for one byte, one, the rest."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._buffer = b""
        self._at = 0
        self.is_paused = False

    def recv(self, size: int) -> bytes:
        if self.is_paused:  # set between two packets, so none is left half read
            raise BlockingIOError
        if self._at >= len(self._buffer):
            self._buffer, self._at = self._sock.recv(READ_BYTES), 0
        piece = self._buffer[self._at : self._at + size]
        self._at += len(piece)
        return bytes(piece)

    def pending(self) -> int:
        """Bytes that are here and that no readiness of the socket will tell of."""
        if self.is_paused:
            return 0
        more = self._sock.pending() if isinstance(self._sock, ssl.SSLSocket) else 0
        return len(self._buffer) - self._at + more

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class _Client(paho.Client):
    def _create_socket(self) -> Any:
        sock = super()._create_socket()  # type: ignore[no-untyped-call]
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _Pieces(sock)


class Session:
    """One connection to the broker."""

    def __init__(self, settings: config.Mqtt, listener: Listener) -> None:
        self._settings = settings
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._client: paho.Client | None = None
        self._sock: Any = None
        self._to_acknowledge: list[int] = []
        self._is_over = False
        self._is_leaving = False
        self._closed = asyncio.Event()
        self._greeted: asyncio.Future[Greeting] = self._loop.create_future()
        self._granted: asyncio.Future[list[int]] = self._loop.create_future()
        self._housekeeping: asyncio.TimerHandle | None = None

    async def open(self) -> Greeting:
        """Connect and subscribe. Raises `LinkError`, or `SubscriptionRefused`: that is final."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                self._client = await asyncio.to_thread(self._connect)
                if self._is_over:
                    raise LinkError("closed while connecting")
                self._keep_house()
                greeting = await self._greeted
                await self._subscribe()
                return greeting
        except TimeoutError as error:
            raise LinkError(f"no answer in {ANSWER_TIMEOUT_S:.0f} s") from error

    def acknowledge(self, packets: tuple[int, ...]) -> None:
        """Send PUBACKs, in this order; nothing when the session is over."""
        if not self._to_acknowledge:
            self._loop.call_soon(self._acknowledge_all)
        self._to_acknowledge.extend(packets)

    def _acknowledge_all(self) -> None:
        """All of this turn of the loop in one write; paho's `ack` makes one for each."""
        packets, self._to_acknowledge = self._to_acknowledge, []
        if packets and self._client is not None and not self._is_over:
            data = b"".join(struct.pack("!BBH", paho.PUBACK, 2, packet) for packet in packets)
            self._client._packet_queue(paho.PUBACK, data, packets[-1], 1)  # noqa: SLF001

    def publish(self, topic: str, payload: bytes) -> int:
        """Send at QoS 1; returns paho's number of the message. Raises `LinkError`."""
        if self._client is None or self._is_over:
            raise LinkError("the session is over")
        info = self._client.publish(topic, payload, qos=1, properties=_JSON)
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise LinkError(paho.error_string(info.rc))
        return info.mid

    def pause(self) -> None:
        """Take no more messages, from now on; acknowledgements still go out."""
        if self._sock is not None:
            self._sock.is_paused = True
            self._loop.remove_reader(self._sock)

    def resume(self) -> None:
        """Take messages again."""
        if self._sock is not None and self._sock.is_paused:
            self._sock.is_paused = False
            self._loop.add_reader(self._sock, self._read)
            self._loop.call_soon(self._read_pending)

    async def close(self, *, politely: bool) -> None:
        """End the session: with a DISCONNECT, or as if the cable were cut."""
        client = self._client
        if politely and client is not None and not self._is_over:
            self._is_leaving = True
            self._acknowledge_all()
            client.disconnect()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    await self._closed.wait()
        if not self._is_over:
            self._end()

    async def _subscribe(self) -> None:
        filters = shared_filters(self._settings.group)
        assert self._client is not None
        self._client.subscribe([(name, SubscribeOptions(qos=1)) for name in filters])
        codes = await self._granted
        refused = [
            f"{name} (0x{code:02x})"
            for name, code in zip(filters, codes, strict=False)
            if code >= REFUSED_FROM
        ]
        if refused or len(codes) != len(filters):
            raise SubscriptionRefused(
                f"mqtt: the broker refuses the subscription to {', '.join(refused) or filters}; "
                "allow it for this user, and shared subscriptions at the broker"
            )

    def _connect(self) -> paho.Client:
        """Blocking part; runs on a thread."""
        settings = self._settings
        client = _Client(
            CallbackAPIVersion.VERSION2,
            client_id=settings.client_id,
            protocol=paho.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.max_inflight_messages_set(IN_FLIGHT_MAX)
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
        properties.ReceiveMaximum = settings.receive_maximum
        properties.SessionExpiryInterval = settings.session_expiry_s
        try:
            self._identify(client)
            client.connect(
                settings.host,
                settings.port,
                keepalive=settings.keepalive_s,
                clean_start=False,
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
        self._loop.call_soon_threadsafe(self._watch, sock)

    def _watch(self, sock: Any) -> None:
        if self._is_over:
            sock.close()
            return
        self._sock = sock
        self._loop.add_reader(sock, self._read)

    def _on_socket_close(self, _client: paho.Client, _userdata: object, sock: Any) -> None:
        self._forget(sock)

    def _on_register_write(self, _client: paho.Client, _userdata: object, sock: Any) -> None:
        if self._client is None:  # still on the connecting thread
            self._loop.call_soon_threadsafe(self._watch_write, sock)
        else:
            self._watch_write(sock)

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
        self._read_pending()

    def _read_pending(self) -> None:
        while self._client is not None and self._sock is not None and self._sock.pending():
            self._guard(self._client.loop_read)

    def _write(self) -> None:
        if self._client is not None:
            self._guard(self._client.loop_write)

    def _keep_house(self) -> None:
        if self._is_over or self._client is None:
            return
        self._guard(self._client.loop_misc)
        self._housekeeping = self._loop.call_later(HOUSEKEEPING_S, self._keep_house)

    def _guard(self, call: Callable[[], object]) -> None:
        """A fault inside paho or a listener ends this session, never the loop."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever it is, a new session is the cure
            self._lose(f"internal: {error!r}")

    # paho's side: what the broker says.

    def _on_connect(
        self, _client: object, _userdata: object, flags: Any, reason: Any, properties: Any
    ) -> None:
        if self._greeted.done():
            return
        if reason.is_failure:
            self._lose(f"refused: {reason}")
            return
        self._greeted.set_result(
            Greeting(
                flags.session_present,
                getattr(properties, "ReceiveMaximum", IN_FLIGHT_MAX),
                getattr(properties, "MaximumPacketSize", PACKET_BYTES_MAX),
            )
        )

    def _on_subscribe(
        self, _client: object, _userdata: object, _mid: int, reasons: Any, _properties: object
    ) -> None:
        if not self._granted.done():
            self._granted.set_result([reason.value for reason in reasons])

    def _on_publish(
        self, _client: object, _userdata: object, mid: int, reason: Any, _properties: object
    ) -> None:
        self._listener.answered(mid, reason.value)

    def _on_message(self, _client: object, _userdata: object, message: Any) -> None:
        packet = message.mid if message.qos else None
        topic = message._topic.decode(errors="replace")  # noqa: SLF001 - `topic` may raise
        self._listener.arrived(packet, topic, bytes(message.payload))

    def _on_disconnect(
        self, _client: object, _userdata: object, _flags: object, reason: Any, _properties: object
    ) -> None:
        self._lose(str(reason))

    def _lose(self, reason: str) -> None:
        if self._is_over:
            return
        self._end()
        for waiting in (self._greeted, self._granted):
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


def _json_properties() -> Properties:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("content-type", CONTENT_TYPE)]
    return properties


_JSON: Final = _json_properties()
