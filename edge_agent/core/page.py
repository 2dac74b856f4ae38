"""A page of metrics being written: families of rows, each row once.

Nothing that is put here can spoil a scrape: a row that is there already stays, so that no
series stands twice; what is no number is left out; texts are made fit to be encoded.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from edge_agent.core import quantities

TEXT_LENGTH_MAX: Final = 128

Labels = tuple[str, ...]


class Family(Struct, frozen=True):
    """One metric; a label whose text is empty is not shown."""

    metric: str
    text: str
    kind: quantities.Kind
    labels: Labels
    rows: dict[Labels, float]


class Page:
    """Families by metric, in the order in which they were first named."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def rows(
        self, metric: str, text: str, labels: Labels, kind: quantities.Kind = "gauge"
    ) -> dict[Labels, float]:
        """Where rows of a metric are put."""
        family = self._families.get(metric)
        if family is None:
            family = self._families[metric] = Family(metric, text, kind, labels, {})
        return family.rows

    def fill(
        self,
        table: Sequence[quantities.Quantity],
        names: Labels,
        things: Iterable[tuple[Any, Labels]],
    ) -> None:
        """Rows of each quantity of `table` for each thing, with its labels."""
        columns = [(q.field, q.unit, self.rows(q.metric, q.text, names, q.kind)) for q in table]
        for thing, labels in things:
            for field, unit, rows in columns:
                value = getattr(thing, field)
                if value is None:
                    continue
                shown = unit.of(value)
                if shown is not None:
                    rows.setdefault(labels, shown)

    def families(self) -> list[Family]:
        """All that have rows."""
        return [family for family in self._families.values() if family.rows]


def texts(*values: object) -> Labels:
    """Label values: None is empty; what UTF-8 cannot hold is replaced; length is bounded."""
    return tuple("" if value is None else _text(value) for value in values)


def _text(value: object) -> str:
    return str(value)[:TEXT_LENGTH_MAX].encode("utf-8", "replace").decode()
