"""Do these versions go together? Lookups in the matrix and a judgement; it never guesses.

The words are those of `matrix_findings`; unknown is never ok. The day is an argument; a day
in the past tells how the rows stand on that day, not what was known then.

**Driver and GPUs.** The branch is the number before the first dot. A GPU architecture that
its row lacks is unsupported; one that no row has, and a GPU that tells none, is unknown.
An end of life is a month: the branch is maintained to the end of it and old from the first
of the next. A branch without a date, production or new feature alike, is old when a source
lists it as ended by some month, or when it is older than the oldest branch that is still
maintained; else its end is unknown. (When none is maintained any more, all up to the newest
with a date are old.) Branches older than the table's first are old for the same reason; gaps
in the table and branches beyond it are unknown: 540 is Tegra's, 566 is Windows'. Within a branch
a version above the last known one is fine, branches go on; one below the first known is
unknown (Jetson Thor says 580.00), and so is a developer build, unless they are old anyway.

**Driver and CUDA.** Up to the branch's maximum ok; a later release of the same major is
unknown (it may run by minor-version compatibility); a later major is unsupported.

**KubeEdge and Kubernetes.** `exact` is ok. `plus` and `minus` are old: they share what both
know, one of the two is older. So is a KubeEdge release that the newest README lists no more.
A Kubernetes release below all that the row lists is unsupported; one above is unknown, for
the README was written before it.

**GPU Operator and Kubernetes.** Validated is ok; below the validated range is unsupported,
above it unknown. An operator of a line older than the deprecated one is old.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

from wire import matrix_drivers as drivers
from wire import matrix_kubernetes as kubernetes
from wire.matrix_drivers import Architecture, Branch
from wire.matrix_findings import (
    Compatibility,
    Finding,
    conclude,
    driver_numbers,
    no_version,
    numbers,
    quoted,
    release_numbers,
)

_BRANDS: Final = frozenset({"nvidia", "tesla", "geforce", "quadro"})


def architecture_of(name: str | None, compute_capability: str | None = None) -> Architecture | None:
    """The architecture by its name or by the compute capability; None when they disagree."""
    word = (name or "").strip().casefold().removesuffix(" lovelace")
    named = next((a for a in drivers.ARCHITECTURES if a.casefold() == word), None)
    able = drivers.CAPABILITIES.get((compute_capability or "").strip())
    if named and able and named != able:
        return None
    return named or able


def architecture_of_model(product: str) -> Architecture | None:
    """The architecture of a product by its name, as `NVIDIA A100-SXM4-40GB` or `T4`."""
    words = product.casefold().replace("-", " ").split()
    while words and words[0] in _BRANDS:
        words.pop(0)
    for count in (2, 1):
        found = drivers.MODELS.get(" ".join(words[:count]))
        if found is not None:
            return found
    return None


def judge_driver(
    driver_version: str | None, architectures: Sequence[str | None], now_date: date
) -> Compatibility:
    """An NVIDIA driver on a node with GPUs of these architectures."""
    version = driver_numbers(driver_version)
    if version is None:
        return conclude([no_version("driver", driver_version, "550.54.15")])
    number = version[0]
    row = drivers.BRANCHES.get(number)
    if row is None:
        return conclude([_outside(number, now_date)])
    findings = [_age(row, now_date), *_within(row, version)]
    findings += [_fit(row, told) for told in dict.fromkeys(architectures)]
    if not architectures:
        findings.append(("unknown", "no GPU is told of"))
    return conclude(findings)


def judge_cuda(driver_version: str | None, cuda_version: str | None) -> Compatibility:
    """Programs made for this CUDA release on this driver."""
    version = driver_numbers(driver_version)
    wanted = release_numbers(cuda_version)
    if version is None:
        return conclude([no_version("driver", driver_version, "550.54.15")])
    if wanted is None:
        return conclude([no_version("CUDA", cuda_version, "12.4")])
    row = drivers.BRANCHES.get(version[0])
    if row is None or row.cuda_max is None:
        return conclude([("unknown", f"the CUDA maximum of branch {version[0]} is not known")])
    most = numbers(row.cuda_max)
    told = f"branch {row.branch} goes up to CUDA {row.cuda_max}"
    if wanted[:2] <= most:
        return conclude([("ok", told)])
    if wanted[0] == most[0]:
        return conclude([("unknown", f"{told}; minor-version compatibility may carry more")])
    return conclude([("unsupported", told)])


def judge_kubernetes(kubeedge_version: str | None, kubernetes_version: str | None) -> Compatibility:
    """A KubeEdge release in a cluster of this Kubernetes release."""
    edge, cluster = release_numbers(kubeedge_version), release_numbers(kubernetes_version)
    if edge is None:
        return conclude([no_version("KubeEdge", kubeedge_version, "1.23")])
    if cluster is None:
        return conclude([no_version("Kubernetes", kubernetes_version, "1.31")])
    row = kubernetes.KUBEEDGE.get(f"{edge[0]}.{edge[1]}")
    if row is None:
        return conclude([("unknown", f"KubeEdge {edge[0]}.{edge[1]} is not in the matrix")])
    asked = f"{cluster[0]}.{cluster[1]}"
    findings = [_pairing(row, asked)]
    newest = max(one.readme_date for one in kubernetes.KUBEEDGE.values())
    if row.readme_date < newest:
        told = f"the README of {newest} lists KubeEdge {row.release} no more"
        findings.append(("old", told))
    return conclude(findings)


def judge_operator(operator_version: str | None, kubernetes_version: str | None) -> Compatibility:
    """A GPU Operator release in a cluster of this Kubernetes release."""
    version, cluster = release_numbers(operator_version), release_numbers(kubernetes_version)
    if version is None:
        return conclude([no_version("GPU Operator", operator_version, "26.3.1")])
    if cluster is None:
        return conclude([no_version("Kubernetes", kubernetes_version, "1.31")])
    name = ".".join(str(part) for part in version)
    row = kubernetes.OPERATORS.get(name)
    if row is None:
        return conclude([("unknown", f"GPU Operator {name} is not in the matrix")])
    asked = f"{cluster[0]}.{cluster[1]}"
    findings = [_listed(asked, row.validated, f"GPU Operator {name} is validated")]
    line = version[:2]
    if line < kubernetes.DEPRECATED_LINE:
        findings.append(("old", f"GPU Operator {name} is at the end of its support"))
    elif line < kubernetes.SUPPORTED_LINE:
        findings.append(("ok", f"GPU Operator {name} is of the deprecated line"))
    return conclude(findings)


def _age(row: Branch, now_date: date) -> Finding:
    """Is the branch still maintained?"""
    month, named = _month(now_date), _named(row)
    if row.end_of_life is not None:
        if month > row.end_of_life:
            return "old", f"{named} was maintained until {row.end_of_life}"
        return "ok", f"{named} is maintained until {row.end_of_life}"
    if row.ended_by is not None and month > row.ended_by:
        return "old", f"{named} had ended by {row.ended_by}"
    oldest = _oldest_maintained(month)
    if row.branch < oldest:
        return "old", f"{named} is older than any branch that is maintained ({oldest} or later)"
    return "unknown", f"the end of life of {named} is not known"


def _oldest_maintained(month: str) -> int:
    """The oldest branch with a date that has not come; beyond all that have a date, if none."""
    dated = [row for row in drivers.BRANCHES.values() if row.end_of_life is not None]
    kept = [row.branch for row in dated if (row.end_of_life or "") >= month]
    return min(kept, default=max(row.branch for row in dated) + 1)


def _outside(number: int, now_date: date) -> Finding:
    first, last = min(drivers.BRANCHES), max(drivers.BRANCHES)
    if number < first:
        oldest = _oldest_maintained(_month(now_date))
        told = f"branch {number} is older than any branch that is maintained ({oldest} or later)"
        return "old", told
    where = f"newer than {last}, the last one" if number > last else "a gap"
    return "unknown", f"branch {number} is not in the matrix: {where}"


def _within(row: Branch, version: tuple[int, ...]) -> list[Finding]:
    """Is the version one that its branch is known to have?"""
    findings: list[Finding] = []
    if version[:2] in drivers.DEVELOPER_BUILDS:
        findings.append(("unknown", f"{row.branch}.{version[1]} is a developer build"))
    earliest = row.first_version or row.last_version
    if earliest is None:
        findings.append(("unknown", f"no version of branch {row.branch} was seen"))
    elif version < numbers(earliest):
        findings.append(("unknown", f"the first known version of the branch is {earliest}"))
    elif row.last_version is not None and version > numbers(row.last_version):
        findings.append(("ok", f"newer than {row.last_version}, the last one seen"))
    return findings


def _fit(row: Branch, told: str | None) -> Finding:
    """Does the branch drive this architecture?"""
    if told is None:
        return "unknown", "a GPU does not tell its architecture"
    found = architecture_of(told)
    if found is None:
        return "unknown", f"architecture {quoted(told)} is not in the matrix"
    if found in row.architectures:
        return "ok", f"branch {row.branch} drives {found}"
    span = f"{row.architectures[0]} to {row.architectures[-1]}"
    return "unsupported", f"branch {row.branch} drives {span}, not {found}"


def _pairing(row: kubernetes.KubeEdge, asked: str) -> Finding:
    pair = f"KubeEdge {row.release} and Kubernetes {asked}"
    if asked in row.exact:
        return "ok", f"{pair} are exactly compatible (README of {row.readme_date})"
    if asked in row.plus:
        return "old", f"{pair}: KubeEdge has things that this Kubernetes may lack"
    if asked in row.minus:
        return "old", f"{pair}: Kubernetes has things that this KubeEdge cannot use"
    listed = (*row.plus, *row.exact, *row.minus)
    return _listed(asked, listed, f"the README of {row.readme_date} lists KubeEdge {row.release}")


def _listed(asked: str, listed: Sequence[str], claim: str) -> Finding:
    """`asked` against a list of Kubernetes releases, which has an end because it has a date."""
    if not listed:
        return "unknown", f"no source says for which Kubernetes releases {claim}"
    ordered = sorted(listed, key=numbers)
    told = f"{claim} for Kubernetes {ordered[0]} to {ordered[-1]}"
    if asked in listed:
        return "ok", told
    return ("unsupported" if numbers(asked) < numbers(ordered[0]) else "unknown"), told


def _named(row: Branch) -> str:
    if row.designation is None:
        return f"branch {row.branch}"
    sure = "" if row.designation_confirmed else ", not confirmed"
    return f"branch {row.branch} ({row.designation}{sure})"


def _month(day: date) -> str:
    return f"{day.year:04d}-{day.month:02d}"
