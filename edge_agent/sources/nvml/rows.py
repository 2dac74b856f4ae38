"""Lists that NVML writes into memory of ours, which is kept and grows when it is too small."""

import ctypes
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

from edge_agent.sources.nvml import codes

COUNT_LEAST: Final = 64
TRIES: Final = 3


class Rows:
    """Memory for a list of one kind of row."""

    def __init__(self, lib: codes.Library, layout: struct.Struct) -> None:
        self._lib = lib
        self._layout = layout
        self._count = ctypes.c_uint()
        self._memory = ctypes.create_string_buffer(COUNT_LEAST * layout.size)

    def ask(self, call: Callable[[Any, Any], int]) -> Iterable[tuple[Any, ...]]:
        """The rows that `call` writes to the memory it is given, with their count; raises
        `NVMLError`. A list may have grown between two calls, so there is more than one try.
        """
        for _ in range(TRIES):
            self._count.value = len(self._memory) // self._layout.size
            code = call(self._memory, ctypes.byref(self._count))
            if code == 0:
                size = min(self._count.value * self._layout.size, len(self._memory))
                return self._layout.iter_unpack(memoryview(self._memory)[:size])
            if code != codes.INSUFFICIENT_SIZE:
                raise self._lib.NVMLError(code)
            count = 2 * self._count.value + COUNT_LEAST
            self._memory = ctypes.create_string_buffer(min(count, 65_536) * self._layout.size)
        raise self._lib.NVMLError(codes.INSUFFICIENT_SIZE)
