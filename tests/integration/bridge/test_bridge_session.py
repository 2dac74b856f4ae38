"""A session with a broker that answers as it is told; Mosquitto refuses no subscription."""

import asyncio

import pytest

from bridge import config, errors, mqtt

pytestmark = [pytest.mark.integration, pytest.mark.timeout(30)]

CONNACK = b"\x20\x03\x00\x00\x00"


async def opened(answers: dict[int, bytes]) -> mqtt.Greeting:
    """Open a session with a broker that has one answer for each kind of packet."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        while head := await reader.read(1):
            length, shift = 0, 0
            while True:
                byte = (await reader.readexactly(1))[0]
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            body = await reader.readexactly(length)
            answer = answers.get(head[0] >> 4, b"")
            writer.write(answer.replace(b"MI", body[:2]))
        writer.close()
        await writer.wait_closed()

    served: list[asyncio.Task | None] = []
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    nobody = mqtt.Listener(lambda *_: None, lambda *_: None, lambda *_: None)
    session = mqtt.Session(config.Mqtt(port=port, client_id="x"), nobody)
    try:
        return await session.open()
    finally:
        await session.close(politely=False)
        server.close()
        await asyncio.wait([task for task in served if task is not None], timeout=5)


async def test_granted() -> None:
    """A session is open when every filter is granted."""
    greeting = await opened({1: CONNACK, 8: b"\x90\x07MI\x00\x01\x01\x01\x01"})

    assert greeting == mqtt.Greeting(
        session_present=False,
        in_flight_max=mqtt.IN_FLIGHT_MAX,
        packet_bytes_max=mqtt.PACKET_BYTES_MAX,
    )


async def test_one_filter_refused() -> None:
    """BR-68: one refused filter is fatal, and it is named with its code."""
    with pytest.raises(errors.SubscriptionRefused) as raised:
        await opened({1: CONNACK, 8: b"\x90\x07MI\x00\x01\x01\x87\x01"})

    assert "$share/windvane-bridge/windvane/v1/+/+/events (0x87)" in str(raised.value)
    assert "/live" not in str(raised.value)


async def test_connection_refused_by_the_broker() -> None:
    """A broker that does not let us in is tried again: its administrator may relent."""
    with pytest.raises(errors.LinkError, match="Not authorized"):
        await opened({1: b"\x20\x03\x00\x87\x00"})
