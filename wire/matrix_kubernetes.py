"""KubeEdge and the GPU Operator with the Kubernetes releases they were made for. Data only.

Collected 2026-12-01. KubeEdge: the newest README table that still lists the release, with
that README's date and commit. `exact`: exactly compatible. `plus`: KubeEdge has things
that this Kubernetes may lack. `minus`: this Kubernetes has things that KubeEdge cannot use.
GPU Operator: what `platform-support.rst` of NVIDIA/cloud-native-docs validates on
Ubuntu 22.04, at the tag that the row names; defaults from `values.yaml` of the release's
tag in NVIDIA/gpu-operator. A dash means that no source was found.

The device plugin has no rows of its own: every release since v0.9.0 states the same
minimum (Kubernetes 1.10, driver 384.81), so there is nothing to judge by.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

COLLECTED: Final = "2026-12-01"


class KubeEdge(Struct, frozen=True, kw_only=True):
    """One release; Kubernetes releases as `1.31`, ascending."""

    release: str
    exact: tuple[str, ...]
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    readme_date: str
    first_date: str
    last_tag: str
    last_date: str
    built_with: str
    source: str


class Operator(Struct, frozen=True, kw_only=True):
    """One release of the GPU Operator; `validated` is empty where no source was found."""

    version: str
    date: str
    driver: str
    device_plugin: str
    validated: tuple[str, ...]
    source: str


KUBEEDGE_COLUMNS: Final = (
    "release",
    "exact",
    "plus",
    "minus",
    "readme_date",
    "readme_commit",
    "first_date",
    "last_tag",
    "last_date",
    "built_with",
)
KUBEEDGE_TABLE: Final = """
1.1  1.11-1.17 -         -         2020-08-06 ea09ed19 2019-09-18 v1.1.0  2019-09-18 v1.15.3
1.2  1.12-1.18 -         -         2020-09-28 05bdfa14 2020-02-09 v1.2.1  2020-02-29 v1.17.1
1.3  1.13-1.19 -         -         2021-04-21 f3678bc0 2020-05-15 v1.3.1  2020-05-30 v1.17.1
1.4  1.13-1.19 -         -         2021-04-21 f3678bc0 2020-08-14 v1.4.0  2020-08-14 v1.18.6
1.5  1.13-1.19 -         -         2021-09-01 ad8d972e 2020-11-12 v1.5.0  2020-11-12 v1.19.3
1.6  1.15-1.20 -         1.21      2021-09-01 32ece97b 2021-02-27 v1.6.2  2021-05-06 v1.19.10
1.7  1.15-1.21 -         -         2022-04-16 89d3f21b 2021-05-31 v1.7.2  2021-08-13 v1.19.10
1.8  1.16-1.22 -         -         2022-06-11 6df8dbb5 2021-08-31 v1.8.2  2021-09-28 v1.21.4
1.9  1.16-1.22 -         -         2022-09-27 bbd82b46 2021-12-03 v1.9.5  2022-09-23 v1.21.4
1.10 1.16-1.22 -         -         2023-01-28 6cb57a81 2022-03-08 v1.10.3 2022-09-23 v1.22.6
1.11 1.17-1.22 -         1.23      2023-10-19 5470e29a 2022-06-16 v1.11.3 2023-07-27 v1.22.6
1.12 1.20-1.22 -         1.23-1.29 2024-08-31 3f259fe6 2022-09-28 v1.12.7 2024-01-19 v1.22.17
1.13 1.21-1.23 1.20      1.24-1.29 2024-08-31 3f259fe6 2023-01-17 v1.13.5 2024-01-22 v1.23.17
1.14 1.22-1.24 -         1.25-1.29 2025-01-08 d07732b3 2023-07-01 v1.14.5 2024-01-19 v1.24.17
1.15 1.24-1.26 1.22-1.23 1.27-1.29 2025-01-08 d07732b3 2023-10-13 v1.15.4 2024-09-25 v1.26.15
1.16 1.25-1.27 -         1.28-1.30 2025-01-17 f48d17cf 2024-01-23 v1.16.6 2025-01-09 v1.27.15
1.17 1.26-1.28 1.25      1.29-1.30 2025-06-13 171e6684 2024-04-28 v1.17.5 2025-01-09 v1.28.11
1.18 1.27-1.29 1.26      1.30-1.32 2026-01-26 3375579f 2024-07-25 v1.18.3 2025-01-09 v1.29.6
1.19 1.27-1.29 -         1.30-1.32 2026-03-09 ba18484e 2024-10-28 v1.19.2 2025-01-09 v1.29.6
1.20 1.28-1.30 1.27      1.31-1.32 2026-03-09 ba18484e 2025-01-21 v1.20.0 2025-01-21 v1.30.7
1.21 1.28-1.30 1.27      1.31-1.32 2026-03-09 ba18484e 2025-06-18 v1.21.2 2026-07-15 v1.30.7
1.22 1.29-1.31 1.27-1.28 1.32      2026-03-09 ba18484e 2025-11-05 v1.22.2 2026-07-15 v1.31.12
1.23 1.30-1.32 1.27-1.29 -         2026-03-09 ba18484e 2026-03-11 v1.23.1 2026-07-15 v1.32.10
"""

OPERATOR_COLUMNS: Final = ("version", "date", "driver", "device_plugin", "validated", "docs_tag")
OPERATOR_TABLE: Final = """
1.9.0   2021-12-02 470.82.01  v0.10.0-ubi8 -         -
1.9.1   2022-01-19 470.82.01  v0.10.0-ubi8 -         -
1.10.0  2022-03-18 510.47.03  v0.11.0-ubi8 -         -
1.10.1  2022-04-15 510.47.03  v0.11.0-ubi8 -         -
1.11.0  2022-06-27 515.48.07  v0.12.2-ubi8 -         -
1.11.1  2022-08-04 515.48.07  v0.12.2-ubi8 -         -
22.9.0  2022-09-30 515.65.01  v0.12.3-ubi8 -         -
22.9.1  2022-12-13 525.60.13  v0.13.0-ubi8 1.21-1.23 gpu-operator-v22.9.1
22.9.2  2023-01-30 525.60.13  v0.13.0-ubi8 1.21-1.23 gpu-operator-v22.9.2
23.3.0  2023-04-04 525.105.17 v0.14.0-ubi8 -         -
23.3.1  2023-04-05 525.105.17 v0.14.0-ubi8 1.21-1.23 gpu-operator-v23.3.1
23.3.2  2023-05-22 525.105.17 v0.14.0-ubi8 1.21-1.27 gpu-operator-v23.3.2-2
23.6.0  2023-08-04 535.86.10  v0.14.1-ubi8 1.21-1.27 gpu-operator-v23.6.0-8
23.6.1  2023-08-30 535.104.05 v0.14.1-ubi8 1.21-1.27 gpu-operator-v23.6.1-7
23.6.2  2023-12-13 535.104.05 v0.14.1-ubi8 1.21-1.27 gpu-operator-v23.6.2-5
23.9.0  2023-10-20 535.104.12 v0.14.2-ubi8 1.25-1.28 gpu-operator-v23.9.0-9
23.9.1  2023-12-07 535.129.03 v0.14.3-ubi8 1.22-1.28 gpu-operator-v23.9.1-21
23.9.2  2024-03-06 550.54.14  v0.14.5-ubi8 1.22-1.29 gpu-operator-v23.9.2-7
24.3.0  2024-04-29 550.54.15  v0.15.0-ubi8 1.22-1.30 gpu-operator-v24.3.0-14
24.6.0  2024-07-29 550.90.07  v0.16.1-ubi8 1.22-1.30 gpu-operator-v24.6.0-1
24.6.1  2024-08-08 550.90.07  v0.16.2-ubi8 1.22-1.30 gpu-operator-v24.6.1-1
24.6.2  2024-09-24 550.90.07  v0.16.2-ubi8 1.23-1.30 gpu-operator-v24.6.2-7
24.9.0  2024-10-31 550.127.05 v0.17.0-ubi9 1.24-1.31 gpu-operator-v24.9.0-9
24.9.1  2024-12-04 550.127.08 v0.17.0      1.24-1.31 gpu-operator-v24.9.1-6
24.9.2  2025-01-24 550.144.03 v0.17.0      1.24-1.31 gpu-operator-v24.9.2-15
25.3.0  2025-03-26 570.124.06 v0.17.1      1.29-1.33 gpu-operator-v25.3.0-23
25.3.1  2025-06-05 570.148.08 v0.17.2      1.29-1.33 gpu-operator-v25.3.1-25
25.3.2  2025-07-24 570.148.08 v0.17.3      1.29-1.33 gpu-operator-v25.3.2-11
25.3.3  2025-09-09 580.82.07  v0.17.4      1.29-1.33 gpu-operator-v25.3.3-4
25.3.4  2025-09-17 580.82.07  v0.17.4      1.29-1.33 gpu-operator-v25.3.4-12
25.10.0 2025-10-22 580.95.05  v0.18.0      1.30-1.35 gpu-operator-v25.10-45
25.10.1 2025-12-03 580.105.08 v0.18.1      1.30-1.35 gpu-operator-v25.10-45
26.3.0  2026-03-19 580.126.20 v0.19.0      1.32-1.36 gpu-operator-v26.3-32
26.3.1  2026-04-17 580.126.20 v0.19.0      1.32-1.36 gpu-operator-v26.3-32
26.3.2  2026-05-28 580.126.20 v0.19.2      1.32-1.36 gpu-operator-v26.3-32
26.3.3  2026-06-23 580.126.20 v0.19.3      1.32-1.36 gpu-operator-v26.3-32
26.7.0  2026-08-20 595.91.07  v0.20.0      1.33-1.36 gpu-operator-v26.7-1
"""

SUPPORTED_LINE: Final = (26, 7)
DEPRECATED_LINE: Final = (26, 3)
LINES_FROM: Final = (
    "documentation of GPU Operator v26.7: one line of releases is supported, the one before"
    " it is deprecated, all older ones are at the end of their support"
)


def _span(cell: str) -> tuple[str, ...]:
    """`1.21-1.23` as the three releases it stands for."""
    if cell == "-":
        return ()
    ends = [int(one.removeprefix("1.")) for one in cell.split("-")]
    return tuple(f"1.{minor}" for minor in range(ends[0], ends[-1] + 1))


def _kubeedge(row: str) -> KubeEdge:
    cell = dict(zip(KUBEEDGE_COLUMNS, row.split(), strict=True))
    commit = cell.pop("readme_commit")
    spans = {name: _span(cell.pop(name)) for name in ("exact", "plus", "minus")}
    source = f"kubeedge/kubeedge README.md@{commit}, go.mod at {cell['last_tag']}"
    return KubeEdge(**cell, **spans, source=source)  # type: ignore[arg-type]


def _operator(row: str) -> Operator:
    cell = dict(zip(OPERATOR_COLUMNS, row.split(), strict=True))
    docs, validated = cell.pop("docs_tag"), _span(cell.pop("validated"))
    source = f"NVIDIA/gpu-operator v{cell['version']}"
    if docs != "-":
        source += f"; NVIDIA/cloud-native-docs {docs}"
    return Operator(**cell, validated=validated, source=source)


KUBEEDGE: Final[Mapping[str, KubeEdge]] = {
    row.release: row for row in map(_kubeedge, KUBEEDGE_TABLE.strip().splitlines())
}
OPERATORS: Final[Mapping[str, Operator]] = {
    row.version: row for row in map(_operator, OPERATOR_TABLE.strip().splitlines())
}
