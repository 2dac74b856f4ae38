"""One GPU that NVML showed us: by which way it gives each quantity, and what it gave.

Each way is tried once and then classed: a value, unsupported (the next way from then on,
and at the end nothing, listed once), or failed this time (the next way for this time).
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from edge_agent.core import reading
from edge_agent.sources.nvml import codes, table

FIELD: Final = struct.Struct("=IIqqIIQ")
"""One nvmlFieldValue_t: id, scope, time in us, latency in us, type, return code, raw value."""
DOUBLE, UINT, LONG_LONG, INT, USHORT = 0, 1, 4, 5, 6
INVALID_ARGUMENT: Final = 2

Given = tuple[Any, ...] | reading.Unsupported | reading.Failed


class Plan(Struct):
    """What one kind of tick asks: fields in one call, then the calls; by number of quantity."""

    fields: list[tuple[int, table.Fields]]
    ids: list[table.FieldId]
    asks: list[tuple[int, table.Ask]]


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
            given = self._fields(plan)
            for number, _ in plan.fields:
                self._settle(number, given[number], readings)
        for number, ask in plan.asks:
            self._settle(number, self._asked(ask), readings)
        if slow:
            self._keep(readings)
        if self._gave:
            self.refusal = ""
        return readings

    def _planned(self, *, slow: bool) -> Plan:
        plan = Plan([], [], [])
        for number, quantity in enumerate(table.QUANTITIES):
            if self._ways[number] == len(quantity.ways):
                continue
            way = quantity.ways[self._ways[number]]
            if way.slow and not slow:
                continue
            if isinstance(way, table.Fields):
                plan.fields.append((number, way))
                plan.ids += way.ids
            else:
                plan.asks.append((number, way))
        self._plans[slow] = plan
        return plan

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
            self._gave = True
            pairs = zip(quantity.names, given, strict=True)
            readings.update({name: value for name, value in pairs if value is not None})
        else:
            if isinstance(given, reading.Failed):
                self.refusal = self.refusal or given.reason
            readings.update(dict.fromkeys(quantity.names, given))

    def _by(self, way: table.Way) -> Given:
        if isinstance(way, table.Ask):
            return self._asked(way)
        return self._fields(Plan([(0, way)], list(way.ids), []))[0]

    def _asked(self, ask: table.Ask) -> Given:
        try:
            return ask.call(self._lib, self.handle)
        except Exception as error:  # noqa: BLE001 - garbage from a call can raise anything
            return codes.of(self._lib, error)

    def _fields(self, plan: Plan) -> dict[int, Given]:
        """What the fields of a plan give, by number of quantity; one call for all."""
        try:
            answer = self._lib.nvmlDeviceGetFieldValues(self.handle, plan.ids)
            values = [self._value(entry) for entry in FIELD.iter_unpack(bytes(answer))]
        except Exception as error:  # noqa: BLE001 - as above
            return dict.fromkeys((number for number, _ in plan.fields), codes.of(self._lib, error))
        given: dict[int, Given] = {}
        first = 0
        for number, way in plan.fields:
            given[number] = self._picked(way, values[first : first + len(way.ids)])
            first += len(way.ids)
        return given

    def _value(self, entry: tuple[int, ...]) -> Any:
        kind, code, raw = entry[4:]
        if code == 0:
            return _decoded(kind, raw)
        if code == INVALID_ARGUMENT:  # an id that this driver does not know
            return reading.UNSUPPORTED
        return codes.outcome(code, str(self._lib.NVMLError(code)))

    def _picked(self, way: table.Fields, values: Sequence[Any]) -> Given:
        for value in values:
            if isinstance(value, reading.Failed):
                return value
        known = [None if isinstance(value, reading.Unsupported) else value for value in values]
        if all(value is None for value in known):
            return reading.UNSUPPORTED
        if way.rate:
            known = [self._rate(*pair) for pair in zip(way.ids, known, strict=True)]
        return way.pick(*known)

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
