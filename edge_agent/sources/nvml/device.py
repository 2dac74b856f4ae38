"""One GPU that NVML showed us: by which way it gives each quantity, and what it gave.

Each way is tried once and then classed: a value, unsupported (the next way from then on,
and at the end nothing, listed once), or failed this time (the next way for this time).
"""

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from edge_agent.core import reading
from edge_agent.sources.nvml import codes, table

FIELD: Final = struct.Struct("=24xIIQ")
"""Of one nvmlFieldValue_t (id, scope, time, latency before it): type, return code, raw value."""
DOUBLE, UINT, ULONG, ULONG_LONG, LONG_LONG, INT, USHORT = range(7)
PLAIN: Final = frozenset({ULONG, ULONG_LONG})
INVALID_ARGUMENT: Final = 2

Given = tuple[Any, ...] | reading.Unsupported | reading.Failed


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
        self.call: Callable[[], int] = lambda: codes.FUNCTION_NOT_FOUND
        if function is not None:
            self.call = functools.partial(function, handle, *call.args, *self._memory)

    def given(self) -> tuple[Any, ...]:
        """The readings of what was written."""
        if len(self._layouts) == 1:
            return self._pick(*self._layouts[0].unpack(self._memory[0]))
        pairs = zip(self._layouts, self._memory, strict=True)
        return self._pick(*[value for layout, memory in pairs for value in layout.unpack(memory)])


class Device:
    """The quantities of one GPU.

    `mode_changed` says that its MIG mode did, this time; `refusal` why it gave nothing at
    all of what it was asked, this time.
    """

    def __init__(self, lib: codes.Library, handle: Any) -> None:
        self.handle = handle
        self.mode_changed = False
        self.refusal = ""
        self._gave = False
        self._mig_enabled: object = None
        self._lib = lib
        self._ways = [0] * len(table.QUANTITIES)
        self._plans: dict[bool, Plan] = {}
        self._kept: dict[str, Any] = {}
        self._counters: dict[table.FieldId, tuple[float, int]] = {}
        self._now_s = 0.0

    def read(self, now_s: float, *, slow: bool) -> dict[str, Any]:
        """The readings of this tick; raises `GpuLostError` and `SourceError`."""
        self._now_s = now_s
        self.refusal, self._gave = "", False
        readings = {} if slow else dict(self._kept)
        plan = self._plans.get(slow) or self._planned(slow=slow)
        if plan.ids:
            self._read_fields(plan, readings)
        for number, names, ready in plan.calls:
            code = ready.call()
            if code == 0:
                self._take(names, ready.given(), readings)
            else:
                self._settle(number, self._outcome(code), readings)
        for number, names, ask in plan.asks:
            try:
                given = ask.call(self._lib, self.handle)
            except Exception as error:  # noqa: BLE001 - garbage from a call can raise anything
                self._settle(number, codes.of(self._lib, error), readings)
            else:
                self._take(names, given, readings)
        if slow:
            self._keep(readings)
        if self._gave:
            self.refusal = ""
        return readings

    def _planned(self, *, slow: bool) -> Plan:
        plan = Plan([], [], [], [])
        for number, quantity in enumerate(table.QUANTITIES):
            if self._ways[number] == len(quantity.ways):
                continue
            way = quantity.ways[self._ways[number]]
            if way.slow and not slow:
                continue
            if isinstance(way, table.Fields):
                plan.fields.append((number, quantity.names, way))
                plan.ids += way.ids
            elif isinstance(way, table.Call):
                ready = Ready(self._lib, self.handle, way)
                plan.calls.append((number, quantity.names, ready))
            else:
                plan.asks.append((number, quantity.names, way))
        self._plans[slow] = plan
        return plan

    def _take(
        self, names: tuple[str, ...], given: tuple[Any, ...], readings: dict[str, Any]
    ) -> None:
        """Readings that were given; None for one that is not there this time."""
        self._gave = True
        pairs = zip(names, given, strict=True)
        readings.update([pair for pair in pairs if pair[1] is not None])

    def _settle(self, number: int, given: Given, readings: dict[str, Any]) -> None:
        """What was given, into the readings; what was not, by the next way."""
        quantity = table.QUANTITIES[number]
        way = self._ways[number]
        while not isinstance(given, tuple):
            gone = isinstance(given, reading.Unsupported)
            if gone and way == self._ways[number]:
                self._ways[number] += 1
                self._plans.clear()
            way += 1
            if way == len(quantity.ways):
                break
            following = quantity.ways[way]
            if not gone and isinstance(following, table.Ask) and following.only_without:
                break
            other = self._by(following)
            if isinstance(other, tuple) or gone:
                given = other
        if isinstance(given, tuple):
            self._take(quantity.names, given, readings)
        else:
            if isinstance(given, reading.Failed):
                self.refusal = self.refusal or given.reason
            readings.update(dict.fromkeys(quantity.names, given))

    def _by(self, way: table.Way) -> Given:
        """What another way gives, this time."""
        try:
            if isinstance(way, table.Ask):
                return way.call(self._lib, self.handle)
            if isinstance(way, table.Call):
                ready = Ready(self._lib, self.handle, way)
                code = ready.call()
                return ready.given() if code == 0 else self._outcome(code)
            return self._picked(way, self._entries(Plan([], list(way.ids), [], [])))
        except Exception as error:  # noqa: BLE001 - as above
            return codes.of(self._lib, error)

    def _read_fields(self, plan: Plan, readings: dict[str, Any]) -> None:
        """The fields of a plan."""
        try:
            entries = self._entries(plan)
        except Exception as error:  # noqa: BLE001 - as above
            outcome = codes.of(self._lib, error)
            for number, _, _ in plan.fields:
                self._settle(number, outcome, readings)
            return
        first = 0
        for number, names, way in plan.fields:
            last = first + len(way.ids)
            given = self._picked(way, entries[first:last])
            first = last
            if isinstance(given, tuple):
                self._take(names, given, readings)
            else:
                self._settle(number, given, readings)

    def _entries(self, plan: Plan) -> list[tuple[int, int, int]]:
        """Type, return code and raw value of each field of a plan.

        The binding writes ids into a new array with each call; here the first answer's
        array is asked again, which costs a third.
        """
        if plan.answer is None:
            plan.answer = self._lib.nvmlDeviceGetFieldValues(self.handle, plan.ids)
        else:
            again = self._lib.nvmlLib.nvmlDeviceGetFieldValues
            code = again(self.handle, len(plan.ids), plan.answer)
            if code != 0:
                raise self._lib.NVMLError(code)
        return list(FIELD.iter_unpack(bytes(plan.answer)))

    def _picked(self, way: table.Fields, entries: Sequence[tuple[int, int, int]]) -> Given:
        """Readings of the fields of one way; unsupported when none of them is there."""
        values: list[Any] = []
        is_there = False
        for (kind, code, raw), field in zip(entries, way.ids, strict=True):
            value: Any = None
            if code == 0:
                is_there = True
                value = raw if kind in PLAIN else _decoded(kind, raw)
                if way.rate:
                    value = self._rate(field, value)
            elif code != INVALID_ARGUMENT:  # else an id that this driver does not know
                outcome = self._outcome(code)
                if isinstance(outcome, reading.Failed):
                    return outcome
            values.append(value)
        return way.pick(*values) if is_there else reading.UNSUPPORTED

    def _outcome(self, code: int) -> reading.Unsupported | reading.Failed:
        return codes.outcome(code, str(self._lib.NVMLError(code)))

    def _rate(self, field: table.FieldId, count: Any) -> int | None:
        """Growth of a counter per second; None the first time, or when it was set back."""
        before = self._counters.get(field)
        self._counters[field] = (self._now_s, count)
        if before is None or count < before[1] or self._now_s <= before[0]:
            return None
        return round((count - before[1]) / (self._now_s - before[0]))

    def _keep(self, readings: dict[str, Any]) -> None:
        """Remember the slow readings; another MIG mode makes every way worth a try again."""
        enabled = readings.get("mig_enabled")
        self.mode_changed = self._mig_enabled not in {None, enabled}
        self._mig_enabled = enabled
        if self.mode_changed:
            self._ways = [0] * len(table.QUANTITIES)
            self._plans.clear()
        self._kept = {}
        for number, quantity in enumerate(table.QUANTITIES):
            way = self._ways[number]
            if way == len(quantity.ways) or quantity.ways[way].slow:
                for name in quantity.names:
                    if name in readings:
                        self._kept[name] = readings[name]


def _decoded(kind: int, raw: int) -> float:
    """The union of a field value, by its type."""
    if kind == DOUBLE:
        found: float = struct.unpack("=d", raw.to_bytes(8, "little"))[0]
        return found
    bits = {UINT: 32, INT: 32, USHORT: 16}.get(kind, 64)
    value = raw & ((1 << bits) - 1)
    is_negative = kind in {INT, LONG_LONG} and value >> (bits - 1)
    return value - (1 << bits) if is_negative else value
