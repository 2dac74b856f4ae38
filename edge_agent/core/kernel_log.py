"""The kernel's log: from the bytes of `/dev/kmsg` to the XIDs in them. Pure.

A record is `priority,sequence,microseconds,flags[,more];text`, then lines that begin with
a space and tell more about it (`SUBSYSTEM=pci`), which are not text. What cannot be
printed, line breaks too, stands in the text as a backslash, an x and two hex digits. The
sequence counts every record since the boot. The microseconds are of the kernel's own
clock, which starts at the boot, stands still in a suspend, and is never set.

NVIDIA's driver writes `NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has
fallen off the bus.` With MIG the instance stands behind the address, old drivers left
out `PCI:`, some tell the function. Lines without a code, such as `NVRM: GPU
0000:3b:00.0: GPU has fallen off the bus.`, follow an XID and are not counted a second
time. An NVSwitch's `SXid` has a catalogue of its own and belongs to no GPU: left out.

Only the kernel, and root writing to `/dev/kmsg` by hand (facility "user", the way faults
are injected in a test), are believed. Daemons whose own log is copied into the kernel's
have other facilities: what they say of an XID they only repeat.
"""

import re
from typing import Final

from msgspec import Struct

RECORD: Final = re.compile(rb"(\d{1,4}),(\d{1,19}),(\d{1,18}),[^;\n]{0,256};([^\n]*)")
NEXT_RECORD: Final = re.compile(rb"\n(?=[^ \n])")
ESCAPED: Final = re.compile(rb"\\x([0-9a-fA-F]{2})")
XID: Final = re.compile(
    r"\s*NVRM: Xid \((?:PCI:)?"
    r"(?P<domain>[0-9a-fA-F]{4,8}):(?P<bus>[0-9a-fA-F]{2}):(?P<device>[0-9a-fA-F]{2})"
    r"(?:\.(?P<function>[0-7]))?(?: [^)\n]{0,64})?\): (?P<code>[0-9]{1,5})(?![0-9])(?P<said>.*)"
)
FACILITY_BITS: Final = 3
FACILITIES: Final = frozenset({0, 1})  # kernel, user
SAID_CHARS_MAX: Final = 512


class Record(Struct, frozen=True, kw_only=True):
    """One record of the kernel's log; `stamp_us` is since the boot."""

    priority: int
    sequence: int
    stamp_us: int
    text: str


class Xid(Struct, frozen=True, kw_only=True):
    """One XID as the log tells it; `said` is the driver's own text behind the code."""

    pci_bus_id: str
    code: int
    said: str


def split(raw: bytes) -> list[bytes]:
    """The records in what one read gave; the kernel gives one, a stand-in may give more."""
    return [part for part in NEXT_RECORD.split(raw) if part.strip()]


def parse(raw: bytes) -> Record | None:
    """One record, or None when these bytes are none."""
    found = RECORD.match(raw)
    if found is None:
        return None
    priority, sequence, stamp_us, text = found.groups()
    return Record(
        priority=int(priority),
        sequence=int(sequence),
        stamp_us=int(stamp_us),
        text=ESCAPED.sub(_byte, text).decode(errors="replace"),
    )


def xid_of(record: Record) -> Xid | None:
    """The XID that this record tells, if any; the first where there are several lines."""
    if "NVRM: Xid" not in record.text or record.priority >> FACILITY_BITS not in FACILITIES:
        return None
    for line in record.text.splitlines():
        found = XID.match(line)
        if found is not None:
            said = "".join(char if char.isprintable() else " " for char in found["said"])
            return Xid(
                pci_bus_id=_bus_id(found),
                code=int(found["code"]),
                said=said[:SAID_CHARS_MAX].strip(" ,."),
            )
    return None


def _bus_id(found: re.Match[str]) -> str:
    """A PCI address the way NVML writes it: `00000000:3B:00.0`."""
    domain = found["domain"].upper().zfill(8)
    function = found["function"] or "0"
    return f"{domain}:{found['bus'].upper()}:{found['device'].upper()}.{function}"


def _byte(escaped: re.Match[bytes]) -> bytes:
    return bytes([int(escaped[1], 16)])
