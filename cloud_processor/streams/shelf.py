"""Node states and closed windows as they lie in their two tables.

The two cannot be written at once. So each write of a state has a generation, a window is
written before the state of its generation, and a window remembers its predecessor: a
state that a crash has left one generation behind is shown the window that it knows, and
counting again what it does not know gives the same sums.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from cloud_processor.core import model
from cloud_processor.streams import tables


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A state as the table has it; `generation` counts its writes."""

    generation: int
    state: model.NodeState


class KeptWindow(msgspec.Struct, frozen=True, array_like=True):
    """A closed window as the table has it.

    Written before the state of the same generation. When a crash came between the two, the
    state is older and will count some samples again: then `before` is the window it knows.
    """

    generation: int
    window: model.Window
    before: model.Window | None


class Shelf:
    """Reads and writes the two tables; each write is for the partition that it names."""

    def __init__(self, states: Any, windows: Any) -> None:
        self._states = states
        self._windows = windows

    def all(self) -> Iterator[tuple[bytes, Kept]]:
        """Every state in the table, also of partitions that were ours once."""
        for key, data in self._states.items():
            yield key, tables.unpack(data, Kept)

    def state(self, key: str, partition: int) -> Kept | None:
        with tables.at_partition(partition):
            data = self._states.get(key.encode())
        return None if data is None else tables.unpack(data, Kept)

    def put_state(self, key: str, partition: int, generation: int, state: model.NodeState) -> None:
        with tables.at_partition(partition):
            self._states[key.encode()] = tables.pack(Kept(generation, state))

    def window(
        self, key: str, start_unix_ms: int, partition: int, generation: int
    ) -> model.Window | None:
        """A window as the state of this generation knows it."""
        with tables.at_partition(partition):
            data = self._windows.get(_window_key(key, start_unix_ms))
        if data is None:
            return None
        kept = tables.unpack(data, KeptWindow)
        return kept.window if kept.generation <= generation else kept.before

    def put_window(
        self,
        key: str,
        start_unix_ms: int,
        partition: int,
        generation: int,
        window: model.Window,
    ) -> None:
        before = self.window(key, start_unix_ms, partition, generation - 1)
        with tables.at_partition(partition):
            kept = KeptWindow(generation, window, before)
            self._windows[_window_key(key, start_unix_ms)] = tables.pack(kept)

    def drop_window(self, key: str, start_unix_ms: int, partition: int) -> None:
        with tables.at_partition(partition):
            table_key = _window_key(key, start_unix_ms)
            if table_key in self._windows:
                del self._windows[table_key]


def _window_key(key: str, start_unix_ms: int) -> bytes:
    return f"{key}|{start_unix_ms}".encode()
