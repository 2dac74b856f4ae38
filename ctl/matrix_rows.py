"""`windvane matrix show`: the rows of the matrix, each with source and date."""

from collections.abc import Callable, Mapping
from typing import Final

from ctl import columns
from wire import matrix_drivers as drivers
from wire import matrix_kubernetes as kubernetes

NOT_KNOWN: Final = "-"
DRIVER_HEAD: Final = (
    "BRANCH",
    "KIND",
    "MAINTAINED",
    "GPUS",
    "CUDA",
    "FIRST",
    "OF",
    "LAST-SEEN",
    "OF",
    "SOURCES",
    "DATE",
)


def lines(table: str | None) -> list[str]:
    """One table, or all of them."""
    wanted = TABLES if table is None else {table: TABLES[table]}
    shown: list[str] = []
    for name, made in wanted.items():
        shown += ([""] if shown else []) + [f"== {name} =="] + made()
    return shown


def driver_lines() -> list[str]:
    """Branches, then what the marks and the names of sources mean."""
    rows = [_branch(row) for row in drivers.BRANCHES.values()]
    shown = columns.aligned([DRIVER_HEAD, *rows])
    shown += ["", "MAINTAINED: to the end of that month; by: had ended by that month, not when"]
    shown += ["KIND with ?: not confirmed by a source", f"GPUS: {drivers.ARCHITECTURES_FROM}"]
    shown += ["", *columns.aligned([(f"[{n}]", told) for n, told in drivers.SOURCES.items()])]
    shown += ["", "CUDA maximum, from:"]
    shown += columns.aligned([(str(n), told) for n, told in drivers.CUDA_SOURCES.items()])
    shown += ["", "Notes:"]
    return shown + columns.aligned([(str(n), told) for n, told in drivers.NOTES.items()])


def kubeedge_lines() -> list[str]:
    """KubeEdge releases with the Kubernetes releases that their README lists."""
    head = ["KUBEEDGE", "EXACT", "PLUS", "MINUS", "LAST", "OF", "BUILT-WITH", "README", "SOURCE"]
    rows = [
        (
            row.release,
            _span(row.exact),
            _span(row.plus),
            _span(row.minus),
            row.last_tag,
            row.last_date,
            row.built_with,
            row.readme_date,
            row.source,
        )
        for row in kubernetes.KUBEEDGE.values()
    ]
    return [
        *columns.aligned([head, *rows]),
        "",
        "EXACT: exactly compatible. PLUS: KubeEdge has things that this Kubernetes may lack.",
        "MINUS: this Kubernetes has things that KubeEdge cannot use.",
    ]


def operator_lines() -> list[str]:
    """GPU Operator releases with the Kubernetes releases they are validated for."""
    head = ["OPERATOR", "DATE", "DRIVER", "DEVICE-PLUGIN", "VALIDATED", "SOURCE"]
    rows = [
        (row.version, row.date, row.driver, row.device_plugin, _span(row.validated), row.source)
        for row in kubernetes.OPERATORS.values()
    ]
    return [*columns.aligned([head, *rows]), "", kubernetes.LINES_FROM]


def _branch(row: drivers.Branch) -> tuple[str, ...]:
    kind = row.designation or NOT_KNOWN
    if row.designation is not None and not row.designation_confirmed:
        kind += "?"
    end = row.end_of_life or (f"by:{row.ended_by}" if row.ended_by else NOT_KNOWN)
    told = (row.cuda_max, row.first_version, row.first_date, row.last_version, row.last_date)
    return (
        str(row.branch),
        kind,
        end,
        f"{row.architectures[0]}-{row.architectures[-1]}",
        *(word or NOT_KNOWN for word in told),
        ",".join(row.sources),
        row.date,
    )


def _span(releases: tuple[str, ...]) -> str:
    if not releases:
        return NOT_KNOWN
    return releases[0] if len(releases) == 1 else f"{releases[0]}-{releases[-1]}"


TABLES: Final[Mapping[str, Callable[[], list[str]]]] = {
    "drivers": driver_lines,
    "kubeedge": kubeedge_lines,
    "operator": operator_lines,
}
