"""`windvane matrix check`: do these versions go together, by the matrix in `wire`?

A node's driver and GPUs are asked of the processor's JSON API and judged here, by the
matrix of this command and today's date; where the processor says another word, both stand.
"""

import datetime as dt
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ctl import columns, errors
from wire import matrix
from wire.matrix_findings import Compatibility, State, worst
from wire.verdict import DriverVerdict

EXIT_CODES: Final[dict[State, int]] = {"ok": 0, "unknown": 1, "old": 3, "unsupported": 4}
API_TIMEOUT_S: Final = 5
NO_GPU: Final = "(no GPU told)"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be judged. `gpus` as a person writes them, None for one that is not known;
    `said` is the processor's word on the node, if one was asked.
    """

    day: dt.date
    driver: str | None = None
    gpus: tuple[str | None, ...] = ()
    cuda: str | None = None
    kubernetes: str | None = None
    kubeedge: str | None = None
    operator: str | None = None
    node: str | None = None
    said: State | None = None


def check(question: Question) -> tuple[list[str], int]:
    """The judgements as lines, and the exit code of the gravest; raises `CtlError`."""
    _must_make_sense(question)
    found = _judgements(question)
    rows = []
    for title, judged in found:
        rows.append((title, judged.state, judged.reasons[0] if judged.reasons else ""))
        rows += [("", "", reason) for reason in judged.reasons[1:]]
    lines = columns.aligned(rows)
    driver = found[0][1].state
    if question.said is not None and question.said != driver:
        lines.append(f"the processor says {question.said}: its matrix or its day is another one")
    return lines, EXIT_CODES[worst(judged.state for _, judged in found)]


def of_node(question: Question, api: str, node: str, cluster: str | None) -> Question:
    """The question with what the processor knows of a node; raises `CtlError`."""
    if question.driver is not None or question.gpus:
        raise errors.CtlError("--node tells driver and GPUs: leave out --driver and --gpu")
    query = "" if cluster is None else "?" + urllib.parse.urlencode({"cluster": cluster})
    page = _fetch(f"{api.rstrip('/')}/api/nodes/{urllib.parse.quote(node, safe='')}{query}")
    try:
        told = msgspec.convert(page["verdict"].get("driver"), DriverVerdict | None)
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
        raise errors.CtlError(f"{api} does not answer as a processor does: {error!r}") from error
    if told is None:
        raise errors.CtlError(f"node {node} has told of no NVIDIA GPU")
    return replace(
        question,
        node=node,
        driver=told.version,
        gpus=told.architectures,
        said=told.compatibility,
    )


def day_of(text: str | None) -> dt.date:
    """The day to judge by; today in UTC by default."""
    if text is None:
        return dt.datetime.now(dt.UTC).date()
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        raise errors.CtlError(f"--date {text}: must be a day such as 2026-12-01") from error


def architecture(gpu: str | None) -> str | None:
    """What a person calls a GPU as the matrix does; what it does not know stays as it is."""
    if gpu is None:
        return None
    found = matrix.architecture_of(gpu) or matrix.architecture_of(None, gpu)
    return found or matrix.architecture_of_model(gpu) or gpu


def _must_make_sense(asked: Question) -> None:
    has_driver = asked.driver is not None or asked.node is not None
    pairs = (asked.kubeedge, asked.operator)
    problem = None
    if not has_driver and (asked.gpus or asked.cuda is not None):
        problem = "--gpu and --cuda are judged with --driver or --node"
    elif asked.kubernetes is None and any(one is not None for one in pairs):
        problem = "--kubeedge and --operator are judged with --kubernetes"
    elif asked.kubernetes is not None and pairs == (None, None):
        problem = "--kubernetes is judged with --kubeedge or --operator"
    elif not has_driver and asked.kubernetes is None:
        problem = "say what to check: --driver and --gpu, --node, or --kubeedge and --kubernetes"
    if problem is not None:
        raise errors.CtlError(problem)


def _judgements(asked: Question) -> list[tuple[str, Compatibility]]:
    found = []
    if asked.driver is not None or asked.node is not None:
        gpus = tuple(dict.fromkeys(architecture(gpu) for gpu in asked.gpus))
        title = f"driver {_plain(asked.driver)} on {_listed(gpus)}"
        if asked.node is not None:
            title = f"{asked.node}: {title}"
        found.append((title, matrix.judge_driver(asked.driver, gpus, asked.day)))
    if asked.cuda is not None:
        title = f"CUDA {_plain(asked.cuda)} on driver {_plain(asked.driver)}"
        found.append((title, matrix.judge_cuda(asked.driver, asked.cuda)))
    cluster = _plain(asked.kubernetes)
    if asked.kubeedge is not None:
        title = f"KubeEdge {_plain(asked.kubeedge)} in Kubernetes {cluster}"
        found.append((title, matrix.judge_kubernetes(asked.kubeedge, asked.kubernetes)))
    if asked.operator is not None:
        title = f"GPU Operator {_plain(asked.operator)} in Kubernetes {cluster}"
        found.append((title, matrix.judge_operator(asked.operator, asked.kubernetes)))
    return found


def _listed(gpus: Sequence[str | None]) -> str:
    return ", ".join(_plain(gpu) for gpu in gpus) or NO_GPU


def _plain(text: str | None) -> str:
    """Foreign text on a terminal: nothing in it is obeyed."""
    return "unknown" if text is None else ascii(text)[1:-1]


def _fetch(url: str) -> Any:
    """JSON of a page; raises `CtlError` with what the page says of its refusal."""
    if not url.startswith(("http://", "https://")):
        raise errors.CtlError(f"--api: {url} must begin with http:// or https://")
    try:
        with urllib.request.urlopen(url, timeout=API_TIMEOUT_S) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        raise errors.CtlError(f"{url}: {error.code} {_refusal(error)}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise errors.CtlError(f"{url} cannot be read: {error}") from error


def _refusal(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return error.reason
