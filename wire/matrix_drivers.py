"""NVIDIA driver branches: which GPUs each one drives, how long it is maintained. Data only.

Collected 2026-12-01; what each row says, and who says it, stands in the row. Nothing here
is guessed: a dash means that no source was found. A designation with a question mark is
not confirmed by a source. `by:2025-08` as the end means that the edition of that month
lists the branch as ended without a date. Architectures are derived for every row alike
(`ARCHITECTURES_FROM`), not read from a list for that branch. Dates of tags are those of
the newest tag that was seen: a branch may have later versions.

Two-part and odd numbers are normal (525.53, 580.95.05). Developer builds have middle
numbers of their own (`DEVELOPER_BUILDS`); an odd middle number alone does not make one.
Tegra (Jetson) and Windows have drivers of their own numbering and are not in the table.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec
from msgspec import Struct

Architecture = Literal[
    "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"
]
Designation = Literal["LTS", "production", "new-feature"]

COLLECTED: Final = "2026-12-01"
ARCHITECTURES: Final[tuple[Architecture, ...]] = get_args(Architecture)
ARCHITECTURES_FROM: Final = (
    "derived from docs.nvidia.com/datacenter/tesla/drivers/"
    "cuda-toolkit-driver-and-architecture-matrix.html: Kepler's last branch is 470, that of"
    " Maxwell, Pascal and Volta 580; Ada and Hopper begin with CUDA 11.8, Blackwell with 12.8"
)

_TESLA: Final = "docs.nvidia.com/datacenter/tesla/drivers"
SOURCES: Final[Mapping[str, str]] = {
    "tags": "tags of NVIDIA/nvidia-persistenced and NVIDIA/open-gpu-kernel-modules",
    "r580": f"{_TESLA}/supported-drivers-and-cuda-toolkit-versions.html (edition of v580, 2025-08)",
    "r615": f"{_TESLA}/615/supported-drivers-and-cuda-toolkit-versions.html (as of 2026-09-09)",
    "r620": f"{_TESLA}/620/supported-drivers-and-cuda-toolkit-versions.html",
    "device-edge": "NVIDIA/cloud-native-docs edge/nvidia-gpu-with-device-edge.rst",
    "operator": "component matrix of GPU Operator v26.7.0",
    "captures": "nvidia-smi captures in NVIDIA/k8s-test-infra, utkuozdemir/nvidia_gpu_exporter",
    "spark": "a capture of a DGX Spark (repository not named)",
    "redistrib": "developer.download.nvidia.com redistrib_620.70.06.json",
    "nvml": "header version in nvidia-ml-py 13.615.71",
}


class Branch(Struct, frozen=True, kw_only=True):
    """One row. Months are `YYYY-MM`; `ended_by` is a month in which it had ended already;
    `sources` are names in `SOURCES`.
    """

    branch: int
    architectures: tuple[Architecture, ...]
    cuda_max: str | None
    cuda_source: str | None
    designation: Designation | None
    designation_confirmed: bool
    end_of_life: str | None
    ended_by: str | None
    first_version: str | None
    first_date: str | None
    last_version: str | None
    last_date: str | None
    sources: tuple[str, ...]
    note: str | None
    date: str = COLLECTED


COLUMNS: Final = (
    "branch",
    "architectures",
    "cuda",
    "designation",
    "end",
    "first",
    "first_date",
    "last",
    "last_date",
    "sources",
)
TABLE: Final = """
470 Kepler-Ampere     11.4 LTS?         -          470.42.01 2021-06-22 470.256.02 2024-06-04 tags
510 Maxwell-Ampere    11.6 production?  by:2025-08 510.39.01 2022-01-11 510.108.03 2022-11-23 tags,r580
515 Maxwell-Ampere    11.7 production?  by:2025-08 515.43.04 2022-05-09 515.105.01 2023-03-30 tags,r580
520 Maxwell-Hopper    11.8 new-feature? -          520.61.05 2022-10-10 520.61.07  2022-10-20 tags
525 Maxwell-Hopper    12.0 production?  by:2025-08 525.53    2022-11-10 525.147.05 2023-10-31 tags,r580,device-edge
530 Maxwell-Hopper    12.1 new-feature? -          530.30.02 2023-02-28 530.41.03  2023-03-23 tags
535 Maxwell-Hopper    12.2 LTS          2026-06    535.43.02 2023-05-30 535.309.01 2026-04-28 tags,operator,r615,r580
545 Maxwell-Hopper    12.3 new-feature? -          545.23.06 2023-10-17 545.29.06  2023-11-21 tags
550 Maxwell-Hopper    12.4 production?  by:2025-08 550.40.07 2024-01-24 550.163.01 2025-04-17 tags,r580,device-edge
555 Maxwell-Hopper    12.5 new-feature? -          555.42.02 2024-05-21 555.58.02  2024-07-01 tags
560 Maxwell-Hopper    12.6 new-feature? by:2025-08 560.28.03 2024-07-19 560.35.03  2024-08-19 tags,r580,device-edge
565 Maxwell-Hopper    12.7 new-feature? by:2025-08 565.57.01 2024-10-22 565.77     2024-12-05 tags,r580,device-edge
570 Maxwell-Blackwell 12.8 production   2026-02    570.86.15 2025-01-27 570.211.01 2026-01-13 tags,r580
575 Maxwell-Blackwell 12.9 new-feature? by:2025-08 575.51.02 2025-04-17 575.64.05  2025-07-22 tags,r580,device-edge
580 Maxwell-Blackwell 13.0 LTS          2028-06    580.65.06 2025-08-04 580.178.04 2026-09    tags,spark,r615,r620
590 Turing-Blackwell  13.1 new-feature? -          590.44.01 2025-12-02 590.48.01  2025-12-18 tags
595 Turing-Blackwell  13.2 production   2027-03    595.45.04 2026-03-05 595.91.07  2026-08    tags,captures,operator,r615,r620
610 Turing-Blackwell  13.3 new-feature  2026-08    -         -          610.57.04  2026-08    captures,operator,r615
615 Turing-Blackwell  -    -            -          -         -          -          -          r615,nvml
620 Turing-Blackwell  13.5 LTS          2029-09    -         -          620.70.06  2026-11-04 redistrib,r620
"""  # noqa: E501 - a table

CUDA_SOURCES: Final[Mapping[int, str]] = {
    470: "capture of 470.103.01 on a V100 (repository not named)",
    510: "netdata/go.d.plugin tesla-p100.xml (510.47.03)",
    515: "influxdata/telegraf tesla-t4.xml (515.105.01)",
    520: "not seen in a capture: the toolkit of its time, the first for Ada and Hopper",
    525: "influxdata/telegraf rtx-3090-v12.xml (525.147.05)",
    530: "nvidia-smi banner of 530.47 in the README of hershey890/cs259",
    535: "influxdata/telegraf a100-sxm4-v12.xml (535.54.03)",
    545: "capture of 545.23.08 (repository not named)",
    550: "thamada/nvidia-smi A40x10_smi.py (550.127.05)",
    555: "capture of 555.42.06 on an L4 (repository not named)",
    560: "capture of 560.35.03 (repository not named)",
    565: "Jesse3692/MultiLanguageLearning (566.36 on Windows, of branch 565)",
    570: "NVIDIA/k8s-test-infra qx-a100.xml (570.148.08)",
    575: "NVIDIA's XID catalogue, which pairs CUDA 12.9 with R575",
    580: "NVIDIA/k8s-test-infra qx-b200.xml (580.105.08)",
    590: "utkuozdemir/nvidia_gpu_exporter (590.48.01)",
    595: "NVIDIA/k8s-test-infra qx-t4.xml (595.91.07)",
    610: "utkuozdemir/nvidia_gpu_exporter (610.57.04)",
    620: "redistrib_620.70.06.json (cuda_variant)",
}

NOTES: Final[Mapping[int, str]] = {
    470: "was still a choice in GPU Operator v24.3.0 (470.256.02); no end date found",
    530: "its CUDA maximum comes from a later version (530.47) than the last tag",
    580: "the edition of 2025-08 said 2028-08, the newer ones say 2028-06",
    610: "its nvidia-smi prints KMD and CUDA UMD versions; the old two lines are deprecated",
    615: "an edition of the documentation exists; no driver number was seen",
    620: "only 620.70.06 was seen",
}

DEVELOPER_BUILDS: Final = frozenset(
    {(515, 49), (525, 47), (535, 43), (550, 40), (570, 123), (580, 94)}
)
"""Branch and middle number of NVIDIA's Vulkan developer builds, from the tags (2026-12-01)."""

CAPABILITIES: Final[Mapping[str, Architecture]] = {
    "3.0": "Kepler", "3.2": "Kepler", "3.5": "Kepler", "3.7": "Kepler",
    "5.0": "Maxwell", "5.2": "Maxwell", "5.3": "Maxwell",
    "6.0": "Pascal", "6.1": "Pascal", "6.2": "Pascal",
    "7.0": "Volta", "7.2": "Volta",
    "7.5": "Turing",
    "8.0": "Ampere", "8.6": "Ampere", "8.7": "Ampere",
    "8.9": "Ada",
    "9.0": "Hopper",
    "10.0": "Blackwell", "10.3": "Blackwell", "11.0": "Blackwell",
    "12.0": "Blackwell", "12.1": "Blackwell",
}  # fmt: skip
"""Compute capability to architecture: from 8.7 on developer.nvidia.com/cuda-gpus, 6.0, 6.1, 7.0,
7.5, 8.0, 8.6 captures of nvidia-smi (2026-12-01); the others are commonly known and were not
looked up. One that is not listed is not known, whatever its first digit says."""

MODELS: Final[Mapping[str, Architecture]] = {
    "p100": "Pascal", "p400": "Pascal", "p2000": "Pascal",
    "v100": "Volta", "v100s": "Volta",
    "t4": "Turing", "rtx 2080": "Turing",
    "a100": "Ampere", "a10g": "Ampere", "rtx 3060": "Ampere", "rtx 3080": "Ampere",
    "rtx 3090": "Ampere",
    "l4": "Ada", "l40s": "Ada", "rtx 4070": "Ada", "rtx 4080": "Ada", "rtx 4090": "Ada",
    "h100": "Hopper", "h200": "Hopper",
    "b200": "Blackwell", "gb200": "Blackwell", "gb300": "Blackwell", "gb10": "Blackwell",
}  # fmt: skip
"""Product names without brand, as their nvidia-smi captures tell both (2026-12-01)."""


def _parse(row: str) -> Branch:
    """One row of the table; a word that is not of the vocabulary is refused at import."""
    cell = {k: v for k, v in zip(COLUMNS, row.split(), strict=True) if v != "-"}
    first, last = (ARCHITECTURES.index(a) for a in cell["architectures"].split("-"))
    number, end, designation = int(cell["branch"]), cell.get("end"), cell.get("designation")
    ended = end is not None and end.startswith("by:")
    return msgspec.convert(
        {
            "branch": number,
            "architectures": ARCHITECTURES[first : last + 1],
            "cuda_max": cell.get("cuda"),
            "cuda_source": CUDA_SOURCES.get(number),
            "designation": designation and designation.removesuffix("?"),
            "designation_confirmed": designation is not None and not designation.endswith("?"),
            "end_of_life": None if ended else end,
            "ended_by": end and end.removeprefix("by:") if ended else None,
            "first_version": cell.get("first"),
            "first_date": cell.get("first_date"),
            "last_version": cell.get("last"),
            "last_date": cell.get("last_date"),
            "sources": tuple(cell["sources"].split(",")),
            "note": NOTES.get(number),
        },
        Branch,
    )


BRANCHES: Final[Mapping[int, Branch]] = {
    row.branch: row for row in map(_parse, TABLE.strip().splitlines())
}
