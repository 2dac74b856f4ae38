"""Findings, and the one word they come to; versions as they are written.

`ok`: a source says so, for all that was asked. `old`: it runs, and the side that is too old
gets no more mending. `unsupported`: the source leaves it out. `unknown`: no source says
anything, or the text is no version. Several findings give the gravest word that is certain:
unsupported, then old, then unknown; `ok` only where nothing else was found.
"""

import re
from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct

State = Literal["ok", "old", "unsupported", "unknown"]
Finding = tuple[State, str]

GRAVITY: Final[tuple[State, ...]] = ("ok", "unknown", "old", "unsupported")
REASONS_MAX: Final = 8
QUOTED_MAX: Final = 40

_DRIVER: Final = re.compile(r"([1-9][0-9]{2})\.([0-9]{1,3})(?:\.([0-9]{1,3}))?", re.ASCII)
_RELEASE: Final = re.compile(
    r"v?([0-9]{1,3})\.([0-9]{1,3})(?:\.([0-9]{1,4}))?(?:[-+][-+.0-9A-Za-z]{1,60})?", re.ASCII
)


class Compatibility(Struct, frozen=True):
    """The judgement, with the reasons for the word first."""

    state: State
    reasons: tuple[str, ...]


def conclude(findings: Iterable[Finding]) -> Compatibility:
    """Some findings as one judgement; what is ok is only told when all is."""
    ordered = sorted(findings, key=lambda one: -GRAVITY.index(one[0]))
    state = worst(word for word, _ in ordered)
    told = [why for word, why in ordered if word != "ok" or state == "ok"]
    return Compatibility(state, tuple(told[:REASONS_MAX]))


def worst(states: Iterable[State]) -> State:
    """The gravest word that is certain; `unknown` of none."""
    return max(states, key=GRAVITY.index, default="unknown")


def driver_numbers(text: str | None) -> tuple[int, ...] | None:
    """`550.54.15` as numbers; None for what is no NVIDIA driver version."""
    return _parsed(_DRIVER, text)


def release_numbers(text: str | None) -> tuple[int, ...] | None:
    """`1.31` or `v1.31.4+k3s1` as numbers, what follows left out; None for anything else."""
    return _parsed(_RELEASE, text)


def no_version(what: str, text: str | None, example: str) -> Finding:
    """What is found where a version should stand and does not."""
    if text is None:
        return "unknown", f"the {what} version is not told"
    return "unknown", f"{quoted(text)} is not a {what} version such as {example}"


def quoted(text: str) -> str:
    """Foreign text as a part of a reason: short, and nothing in it that a terminal obeys."""
    return ascii(text[:QUOTED_MAX])


def numbers(text: str) -> tuple[int, ...]:
    """A version of the matrix itself."""
    return tuple(int(part) for part in text.split("."))


def _parsed(pattern: re.Pattern[str], text: str | None) -> tuple[int, ...] | None:
    match = pattern.fullmatch((text or "").strip())
    return None if match is None else tuple(int(part) for part in match.groups() if part)
