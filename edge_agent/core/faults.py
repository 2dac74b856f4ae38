"""Faults that a person or a test asks of simulated GPUs, one JSON object a line.

`{"node":"edge-03","fault":"xid","xid":79,"gpu":0,"duration_s":40}` and so on. A line is
either a fault or a problem in words; a bad line never stops the good ones.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

OFF_THE_BUS: Final = frozenset({79})
NEEDS_RESET: Final = frozenset({48, 63, 64, 92, 94, 95, 119, 120, 140})

Kind = Literal["xid", "load", "hot", "hang", "silent"]


class Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`gpu` None means all GPUs (an XID: the first). `at_s` is counted from the agent's start."""

    node: str
    fault: Kind
    xid: Annotated[int, Meta(ge=1, le=1000)] | None = None
    gpu: Annotated[int, Meta(ge=0)] | None = None
    utilization_percent: Annotated[float, Meta(ge=0, le=100)] = 97.0
    duration_s: Annotated[float, Meta(ge=0)] = 60.0
    at_s: Annotated[float, Meta(ge=0)] = 0.0


def parse(line: str | bytes) -> Fault | str:
    """A fault, or what is wrong with the line."""
    try:
        fault = msgspec.json.decode(line, type=Fault)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return str(error)
    if fault.fault == "xid" and fault.xid is None:
        return "fault xid needs a number: `xid`"
    return fault


class Active(Struct, frozen=True, kw_only=True):
    """A fault of this node with its time on the agent's clock, in seconds since start."""

    fault: Fault
    from_s: float

    @property
    def to_s(self) -> float:
        """When it is over."""
        return self.from_s + self.fault.duration_s


def active(faults: Iterable[Active], kind: Kind, now_s: float) -> tuple[Active, ...]:
    """The faults of one kind that are in force."""
    return tuple(f for f in faults if f.fault.fault == kind and f.from_s <= now_s < f.to_s)


def hits(one: Active, gpu: int) -> bool:
    """Whether the fault is for this GPU."""
    if one.fault.gpu is None:
        return one.fault.fault != "xid" or gpu == 0
    return one.fault.gpu == gpu
