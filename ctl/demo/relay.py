"""A link that can be cut: a TCP relay between one agent and the broker.

While cut, the relay swallows nothing and forwards nothing: open connections stand
still as on a dead link, and new ones are refused. When the link is restored the old
connections are gone, as they are after a real outage.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, Final, Self

CHUNK_BYTES: Final = 65_536


class Relay:
    """Listens on 127.0.0.1:`port` and relays to `target_port`, in a thread of its own."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._shut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> None:
        """The link is dead from now on."""
        self._call(self._cut())

    def restore(self) -> None:
        """The link is whole again; what stood on the dead one is gone."""
        self._call(self._restore())

    def _call(self, step: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._open.set()

    async def _cut(self) -> None:
        self._open.clear()
        await self._unlisten()

    async def _restore(self) -> None:
        self._hang_up()
        await self._listen()

    async def _shut(self) -> None:
        self._open.set()
        await self._unlisten()
        self._hang_up()
        others = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _unlisten(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _hang_up(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError):
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            self._writers.add(back_writer)
            await asyncio.gather(self._pump(reader, back_writer), self._pump(back_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await self._open.wait()
                writer.write(chunk)
                await writer.drain()
        writer.transport.abort()
        self._writers.discard(writer)
