"""One GPU that NVML showed us: by which way it gives each quantity, and what it gave.

Each way is tried once and then classed: a value, unsupported (the next way from then on,
and at the end nothing, listed once), or failed this time (the next way for this time).
"""

from collections.abc import Sequence
from typing import Any

from edge_agent.core import reading
from edge_agent.sources.nvml import codes, table, ways

Given = tuple[Any, ...] | reading.Unsupported | reading.Failed


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
        self._plans: dict[bool, ways.Plan] = {}
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

    def _planned(self, *, slow: bool) -> ways.Plan:
        plan = ways.Plan([], [], [], [])
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
                ready = ways.Ready(self._lib, self.handle, way)
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
        if len(names) == 1:  # most have one
            if given[0] is not None:
                readings[names[0]] = given[0]
            return
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
                ready = ways.Ready(self._lib, self.handle, way)
                code = ready.call()
                return ready.given() if code == 0 else self._outcome(code)
            return self._picked(way, self._entries(ways.Plan([], list(way.ids), [], [])))
        except Exception as error:  # noqa: BLE001 - as above
            return codes.of(self._lib, error)

    def _read_fields(self, plan: ways.Plan, readings: dict[str, Any]) -> None:
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

    def _entries(self, plan: ways.Plan) -> list[tuple[int, int, int]]:
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
        return list(ways.FIELD.iter_unpack(bytes(plan.answer)))

    def _picked(self, way: table.Fields, entries: Sequence[tuple[int, int, int]]) -> Given:
        """Readings of the fields of one way; unsupported when none of them is there."""
        values: list[Any] = []
        is_there = False
        for (kind, code, raw), field in zip(entries, way.ids):  # noqa: B905 - as many as asked
            value: Any = None
            if code == 0:
                is_there = True
                value = raw if kind in ways.PLAIN else ways.decoded(kind, raw)
                if way.rate:
                    value = self._rate(field, value)
            elif code != codes.INVALID_ARGUMENT:  # else an id that this driver does not know
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
