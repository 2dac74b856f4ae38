"""`/proc/<pid>/stat`, from text to a process."""

import re

import hypothesis
import pytest
from hypothesis import strategies as st

from edge_agent.core import procstat

KTHREADD = (
    "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 1 0 0 20 0 1 0 31 0 0 18446744073709551615"
    " 0 0 0 0 0 0 0 2147483647 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
)


def line(name="python", state="S", start=4711, flags=4194304):
    """A process as the kernel writes it."""
    return (
        f"4242 ({name}) {state} 1 4242 4242 0 -1 {flags} 5 0 0 0 1 2 0 0 20 0 9 0 {start} 0 0"
        " 18446744073709551615 0 0\n"
    )


def test_pid_name_and_start_are_told():
    """Field 22 is the start, counted behind a name that has a field of its own."""
    assert procstat.parse(line()) == procstat.Stat(
        pid=4242, name="python", start_ticks=4711, has_ended=False, is_kernel_thread=False
    )


def test_a_kernel_thread_says_so_in_its_flags():
    """A capture of Linux 6.1; a process that is named like one is none."""
    found = procstat.parse(KTHREADD)

    assert found is not None
    assert (found.pid, found.start_ticks, found.is_kernel_thread) == (2, 31, True)
    fake = procstat.parse(line(name="kthreadd"))
    assert fake is not None
    assert not fake.is_kernel_thread


@pytest.mark.parametrize("name", ["a b", "(sd-pam)", ") S 1 1 (", "tmux: server", "a) (b", ")))"])
def test_a_name_may_hold_blanks_and_parentheses(name):
    """The name ends at the last parenthesis, so no field moves."""
    found = procstat.parse(line(name=name))

    assert found is not None
    assert (found.name, found.start_ticks) == (name, 4711)


@pytest.mark.parametrize(
    ("state", "has_ended"), [("R", False), ("D", False), ("Z", True), ("X", True)]
)
def test_a_zombie_has_ended(state, has_ended):
    """It holds nothing any more, wherever its cgroup says it is."""
    found = procstat.parse(line(state=state))

    assert found is not None
    assert found.has_ended is has_ended


def test_what_cannot_be_printed_is_left_out_of_the_name():
    """A name is set by the process and goes into logs."""
    found = procstat.parse(line(name="a\nb\x1b[31m"))

    assert found is not None
    assert found.name == "a b [31m"


@hypothesis.given(name=st.text(max_size=16), start=st.integers(0, 2**64 - 1))
def test_no_name_moves_the_start(name, start):
    """Whatever a process calls itself."""
    found = procstat.parse(line(name=name, start=start))

    assert found is not None
    assert found.start_ticks == start


@hypothesis.given(said=st.text(max_size=200) | st.text("0123456789 ()SZ-\n", max_size=200))
def test_garbage_is_no_process_or_a_whole_one(said):
    """Any text gives an answer; no field is made up."""
    found = procstat.parse(said)

    assert found is None or found.start_ticks in [int(one) for one in re.findall("[0-9]+", said)]


@pytest.mark.parametrize(
    "said",
    ["", "4242", "4242 (a)", "4242 (a) S 1 1", line()[:60], line(state="12"), line(start=-1)],
)
def test_a_line_that_is_cut_or_wrong_is_none(said):
    """A field that is not what it should be makes the whole line worthless."""
    assert procstat.parse(said) is None
