"""What the demo shows: a live table on a terminal, plain lines anywhere else."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from rich import console, live, table, text

NUMBERS: Final = {"GPU %", "age s", "records", "missing"}
STYLES: Final = {
    "fresh": "green",
    "stale": "yellow",
    "lost": "red",
    "ok": "green",
    "degraded": "yellow",
    "failed": "bold red",
    "saturated": "bold magenta",
    "high": "magenta",
    "unknown": "dim",
}


class Screen:
    """`show` it the fleet and the story's lines as often as you like; prints each line once."""

    def __init__(self) -> None:
        self._console = console.Console()
        self._live = live.Live(console=self._console, auto_refresh=False, transient=True)
        self._printed = 0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, line: str) -> None:
        """A line above the table."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, nodes: Mapping[str, Mapping[str, Any]], lines: Sequence[str]) -> None:
        """The fleet as it is now, and what is new in the story."""
        for line in lines[self._printed :]:
            self.say(line)
        self._printed = len(lines)
        if self._console.is_terminal:
            self._live.update(fleet_table(nodes), refresh=True)


def fleet_table(nodes: Mapping[str, Mapping[str, Any]]) -> table.Table:
    """One row a node."""
    made = table.Table(title="Windvane: what each node looks like, and what is done about it")
    for name in ("node", "load", "GPU %", "health", "telemetry", "age s", "records", "missing"):
        made.add_column(name, justify="right" if name in NUMBERS else "left")
    made.add_column("taints", overflow="fold")
    for name in sorted(nodes):
        made.add_row(*_row(name, nodes[name]))
    return made


def _row(name: str, node: Mapping[str, Any]) -> tuple[str | text.Text, ...]:
    intake = node.get("intake") or {}
    age_ms = node.get("freshness_ms")
    utilization = node.get("utilization_percent")
    return (
        name,
        _styled(node["load"]),
        "-" if utilization is None else f"{utilization:.0f}",
        _styled(node["health"]),
        _styled(node["telemetry"]),
        "-" if age_ms is None else f"{age_ms / 1000:.1f}",
        str(intake.get("received", "-")),
        str(intake.get("missing", "-")),
        " ".join(taint_text(t) for t in node.get("taints", ())),
    )


def taint_text(taint: Mapping[str, str]) -> str:
    """As kubectl writes it, without our domain."""
    return f"{taint['key'].rpartition('/')[2]}={taint['value']}:{taint['effect']}"


def _styled(value: str) -> text.Text:
    return text.Text(value, style=STYLES.get(value, ""))
