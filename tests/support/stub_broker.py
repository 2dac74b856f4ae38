"""A broker that misbehaves as it is told: as little of MQTT 5 as an agent needs.

Mosquitto is well behaved; this one allows little, answers late, wrongly or never.
"""

import asyncio
import struct
from collections.abc import Callable
from typing import Self

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PINGREQ, DISCONNECT = 1, 2, 3, 4, 8, 9, 12, 14


class StubBroker:
    """`answer(topic, payload)` gives the reason code of a PUBACK, or None for silence."""

    def __init__(
        self,
        *,
        receive_maximum: int = 65_535,
        packet_bytes_max: int = 0,
        answer: Callable[[str, bytes], int | None] = lambda _topic, _payload: 0,
        answer_after_s: float = 0.0,
    ) -> None:
        self.receive_maximum = receive_maximum
        self.packet_bytes_max = packet_bytes_max
        self.answer = answer
        self.answer_after_s = answer_after_s
        self.accepted: list[tuple[str, bytes]] = []
        self.connects = 0
        self.breaches: list[str] = []
        self.unanswered_most = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._confirmed_topic = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.drop()
        await asyncio.sleep(0)

    def drop(self) -> None:
        """Cut every connection."""
        for writer in self._writers:
            writer.close()

    def say(self, payload: bytes) -> None:
        """Publish (QoS 0) what is meant for the agent."""
        topic = self._confirmed_topic.encode()
        body = struct.pack("!H", len(topic)) + topic + b"\0" + payload
        for writer in self._writers:
            writer.write(bytes([PUBLISH << 4]) + _length(len(body)) + body)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        unanswered: set[int] = set()
        try:
            while True:
                kind, body, size = await _packet(reader)
                if kind == CONNECT:
                    self.connects += 1
                    writer.write(self._connack())
                elif kind == SUBSCRIBE:
                    length = struct.unpack_from("!H", body, 3)[0]
                    self._confirmed_topic = body[5 : 5 + length].decode()
                    writer.write(bytes([SUBACK << 4, 4]) + body[:2] + b"\0\1")
                elif kind == PUBLISH:
                    self._published(writer, body, size, unanswered)
                elif kind == PINGREQ:
                    writer.write(b"\xd0\0")
                elif kind == DISCONNECT:
                    break
                if self.breaches:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _connack(self) -> bytes:
        properties = b"\x21" + struct.pack("!H", self.receive_maximum)
        if self.packet_bytes_max:
            properties += b"\x27" + struct.pack("!I", self.packet_bytes_max)
        body = b"\0\0" + bytes([len(properties)]) + properties
        return bytes([CONNACK << 4, len(body)]) + body

    def _published(
        self, writer: asyncio.StreamWriter, body: bytes, size: int, unanswered: set[int]
    ) -> None:
        length = struct.unpack_from("!H", body)[0]
        topic = body[2 : 2 + length].decode()
        number = struct.unpack_from("!H", body, 2 + length)[0]
        payload = body[body.index(b'{"v"', 4 + length) :]
        unanswered.add(number)
        self.unanswered_most = max(self.unanswered_most, len(unanswered))
        if len(unanswered) > self.receive_maximum:
            self.breaches.append("receive maximum")
        if self.packet_bytes_max and size > self.packet_bytes_max:
            self.breaches.append("packet size")
        reason = self.answer(topic, payload)
        if reason is None or self.breaches:
            return
        if reason < 0x80:
            self.accepted.append((topic, payload))

        def puback() -> None:
            unanswered.discard(number)
            if not writer.is_closing():
                writer.write(bytes([PUBACK << 4, 4]) + struct.pack("!HBB", number, reason, 0))

        asyncio.get_running_loop().call_later(self.answer_after_s, puback)


async def _packet(reader: asyncio.StreamReader) -> tuple[int, bytes, int]:
    first = (await reader.readexactly(1))[0]
    length, shift, head = 0, 0, 1
    while True:
        byte = (await reader.readexactly(1))[0]
        head += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return first >> 4, await reader.readexactly(length), head + length


def _length(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value % 128 | (0x80 if value >= 128 else 0))
        value //= 128
        if not value:
            return bytes(out)
