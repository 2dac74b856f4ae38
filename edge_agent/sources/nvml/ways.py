"""Ways made ready for one device: functions with their memory, and what is in an answer.

The structures of the binding are not used here: making and reading them costs several
times what a call does.
"""

import ctypes
import functools
import struct
from typing import Any, Final

from msgspec import Struct

from edge_agent.sources.nvml import codes, table

FIELD: Final = struct.Struct("=24xIIQ")
"""Of one nvmlFieldValue_t (id, scope, time, latency before it): type, return code, raw value."""
DOUBLE, UINT, ULONG, ULONG_LONG, LONG_LONG, INT, USHORT = range(7)
PLAIN: Final = frozenset({ULONG, ULONG_LONG})


class Plan(Struct):
    """What one kind of tick asks: fields, all in one call, then the calls; each with the
    number and the names of its quantity. `answer` is the array of the fields' last answer.
    """

    fields: list[tuple[int, tuple[str, ...], table.Fields]]
    ids: list[table.FieldId]
    calls: list[tuple[int, tuple[str, ...], "Ready"]]
    asks: list[tuple[int, tuple[str, ...], table.Ask]]
    answer: Any = None


class Ready:
    """A C function with its arguments, and the memory that it writes to."""

    def __init__(self, lib: codes.Library, handle: Any, call: table.Call) -> None:
        self._layouts = [struct.Struct(f"={out}") for out in call.outs]
        self._memory = [ctypes.create_string_buffer(one.size) for one in self._layouts]
        if call.head:
            struct.pack_into("=I", self._memory[0], 0, call.head)
        self._pick = call.pick
        function = getattr(lib.nvmlLib, call.symbol, None)
        self.call = functools.partial(int, codes.FUNCTION_NOT_FOUND)
        if function is not None:
            self.call = functools.partial(function, handle, *call.args, *self._memory)

    def given(self) -> tuple[Any, ...]:
        """The readings of what was written."""
        if len(self._layouts) == 1:
            values = self._layouts[0].unpack(self._memory[0])
            return values if self._pick is table.as_it_is else self._pick(*values)
        pairs = zip(self._layouts, self._memory, strict=True)
        return self._pick(*[value for layout, memory in pairs for value in layout.unpack(memory)])


def decoded(kind: int, raw: int) -> float:
    """The union of a field value, by its type."""
    if kind == UINT:
        return raw & 0xFFFFFFFF
    if kind == DOUBLE:
        found: float = struct.unpack("=d", raw.to_bytes(8, "little"))[0]
        return found
    bits = {INT: 32, USHORT: 16}.get(kind, 64)
    value = raw & ((1 << bits) - 1)
    is_negative = kind in {INT, LONG_LONG} and value >> (bits - 1)
    return value - (1 << bits) if is_negative else value
