"""One process, from the text of `/proc/<pid>/stat`. Pure.

The second field is the name in parentheses and may itself hold blanks, parentheses and
line breaks: it ends at the last closing parenthesis. Pid and start time (ticks since the
boot) together name a process for good; a pid alone is given again.
"""

import re
from typing import Final

from msgspec import Struct

_LINE: Final = re.compile(r"(?P<pid>[0-9]{1,10}) \((?P<name>.*)\) (?P<rest>[^)]*)", re.DOTALL)
_STATE: Final = re.compile(r"[A-Za-z]")
_WHOLE: Final = re.compile(r"[0-9]{1,20}")
_FLAGS: Final = 6  # counted from the state, which is field 3
_START: Final = 19
_KERNEL_THREAD: Final = 0x200000
_ENDED: Final = frozenset("ZXx")


class Stat(Struct, frozen=True, kw_only=True):
    """What is used of it."""

    pid: int
    name: str
    start_ticks: int
    has_ended: bool
    is_kernel_thread: bool


def parse(said: str) -> Stat | None:
    """One process, or None when this text is none."""
    line = _LINE.fullmatch(said.strip())
    fields = line["rest"].split() if line else []
    if line is None or len(fields) <= _START:
        return None
    state, flags, start = fields[0], fields[_FLAGS], fields[_START]
    if not (_STATE.fullmatch(state) and _WHOLE.fullmatch(flags) and _WHOLE.fullmatch(start)):
        return None
    return Stat(
        pid=int(line["pid"]),
        name="".join(char if char.isprintable() else " " for char in line["name"]).strip(),
        start_ticks=int(start),
        has_ended=state in _ENDED,
        is_kernel_thread=bool(int(flags) & _KERNEL_THREAD),
    )
