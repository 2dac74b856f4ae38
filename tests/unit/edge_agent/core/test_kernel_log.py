"""The kernel's log, from bytes to XIDs."""

import hypothesis
import pytest
from hypothesis import strategies as st

from edge_agent.core import kernel_log

OFF_THE_BUS = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."


def record(text, priority=4, sequence=339, stamp_us=5_140_900):
    """A record as the kernel gives it, with the lines that tell more."""
    head = f"{priority},{sequence},{stamp_us},-,caller=T1;".encode()
    raw = text if isinstance(text, bytes) else text.encode()
    return head + raw + b"\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"


def xid_of(text, priority=4):
    """What is found in a record with this text."""
    found = kernel_log.parse(record(text, priority))
    assert found is not None
    return kernel_log.xid_of(found)


def test_a_record_has_priority_sequence_stamp_and_text():
    """The lines that tell more about a record are not its text."""
    assert kernel_log.parse(record("hello")) == kernel_log.Record(
        priority=4, sequence=339, stamp_us=5_140_900, text="hello"
    )


@pytest.mark.parametrize(
    ("text", "pci_bus_id", "code", "said"),
    [
        (OFF_THE_BUS, "00000000:3B:00.0", 79, "pid=1234, name=python, GPU has fallen off the bus"),
        (
            "NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Ch 00000008, x",
            "00000000:CB:00.0",
            13,
            "pid='<unknown>', name=<unknown>, Ch 00000008, x",
        ),
        (
            "NVRM: Xid (PCI:0019:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x000a04c6 0x0)",
            "00000019:01:00.0",
            149,
            "NETIR_LINK_EVT Fatal XC0 i0 Link 01 (0x000a04c6 0x0)",
        ),
        (
            "NVRM: Xid (PCI:0000:1d:00): 74, NVLink: fatal error detected on link 6(0x0, 0x10000)",
            "00000000:1D:00.0",
            74,
            "NVLink: fatal error detected on link 6(0x0, 0x10000)",
        ),
        (
            "NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (a) to 0x1 (b)",
            "00000000:9B:00.0",
            154,
            "GPU recovery action changed from 0x0 (a) to 0x1 (b)",
        ),
        ("NVRM: Xid (PCI:0000:65:00 GPU-I:05): 31, x", "00000000:65:00.0", 31, "x"),
        ("NVRM: Xid (PCI:0000:3b:00.4): 43", "00000000:3B:00.4", 43, ""),
        ("NVRM: Xid (0000:03:00): 59, 0091", "00000000:03:00.0", 59, "0091"),
        ("NVRM: Xid (PCI:10000:e1:00): 999, new", "00010000:E1:00.0", 999, "new"),
    ],
)
def test_each_form_of_the_driver_is_found(text, pci_bus_id, code, said):
    """Plain, NVLink 5, NVLink 74, recovery action, MIG, with function, old, unknown code."""
    assert xid_of(text) == kernel_log.Xid(pci_bus_id=pci_bus_id, code=code, said=said)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        "NVRM: GPU at PCI:0000:3b:00: GPU-c43f0536-0000-0000-0000-000000000000",
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46",
        "NVRM: Xid (PCI:0000:3b): 79, half an address",
        "NVRM: Xid (PCI:0000:3b:00): 123456, no such number",
        "NVRM: Xid (PCI:0000:3b:00): , none",
        "NVRM: Xid (PCI:0000:3b:00",
        "NVRM: Xid",
        "gpud[77]: saw NVRM: Xid (PCI:0000:3b:00): 79, pid=1",
        "",
    ],
)
def test_what_only_speaks_of_an_xid_is_none(text):
    """Lines beside an XID, switches, quotations and half lines count nothing."""
    assert xid_of(text) is None


@pytest.mark.parametrize(
    ("facility", "is_believed"), [(0, True), (1, True), (3, False), (16, False)]
)
def test_the_kernel_and_root_by_hand_are_believed_and_daemons_are_not(facility, is_believed):
    """A log daemon that copies itself into the kernel's log repeats, it does not report."""
    assert is_believed == (xid_of(OFF_THE_BUS, facility << 3 | 4) is not None)


def test_an_xid_in_a_later_line_of_a_record_is_found():
    """The driver may write several lines at once; the kernel escapes the line breaks."""
    found = xid_of(r"NVRM: GPU at PCI\x0aNVRM: Xid (PCI:0000:3b:00): 31, name=caf\xc3\xa9\x07")

    assert (found.pci_bus_id, found.code, found.said) == ("00000000:3B:00.0", 31, "name=café")


@pytest.mark.parametrize("junk", [b"\xff\xfe\x00", b"\\xff", b"x" * 1_000_000, b"\\x0a" * 10_000])
def test_junk_behind_the_code_changes_nothing(junk):
    """Not UTF-8, endless: the XID is found, what is said of it is bounded and prints."""
    found = xid_of(OFF_THE_BUS.encode() + junk)

    assert (found.pci_bus_id, found.code) == ("00000000:3B:00.0", 79)
    assert len(found.said) <= kernel_log.SAID_CHARS_MAX
    assert found.said.isprintable()


@pytest.mark.parametrize(
    "raw", [b"", b"\n", b" SUBSYSTEM=pci\n", b"4,1,2", b"4,1,2,-", b"-1,1,2,-;x", b"a,b,c,d;x"]
)
def test_what_is_no_record_is_none(raw):
    """Half records and continuation lines alone."""
    assert kernel_log.parse(raw) is None


def test_several_records_in_one_read_are_split():
    """A stand-in that keeps no bounds between records is read like the kernel."""
    raw = record("one") + b"garbage\n" + record(OFF_THE_BUS)
    texts = [found.text for part in kernel_log.split(raw) if (found := kernel_log.parse(part))]

    assert texts == ["one", OFF_THE_BUS]
    assert kernel_log.split(b"\n\n") == []


@hypothesis.given(st.binary(max_size=300), st.booleans())
def test_garbage_is_never_an_xid_and_never_an_error(raw, is_record):
    """Any bytes, as a whole record or as its text."""
    for part in kernel_log.split(record(raw) if is_record else raw):
        found = kernel_log.parse(part)
        if found is not None:
            kernel_log.xid_of(found)


@hypothesis.given(
    st.integers(0, 0xFFFF),
    st.integers(0, 0xFF),
    st.integers(0, 0x1F),
    st.integers(0, 99_999),
    st.text(max_size=100),
)
def test_address_and_code_survive_whatever_is_said(domain, bus, device, code, said):
    """The address comes as NVML writes it, the code as it was."""
    line = f"NVRM: Xid (PCI:{domain:04x}:{bus:02x}:{device:02x}): {code}, "
    found = xid_of(line.encode() + said.encode(errors="replace").replace(b"\n", b"\\x0a"))

    assert f"{domain:08X}:{bus:02X}:{device:02X}.0" == found.pci_bus_id
    assert code == found.code
