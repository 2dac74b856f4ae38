"""The catalogue of XID codes."""

import re
import typing

import hypothesis
import pytest
from hypothesis import strategies as st

from wire import xids

NAMED_IN_CAPITALS = re.compile(r"[A-Z]+_[A-Z_]+")


@pytest.mark.parametrize("code", [8, 13, 31, 43, 45, 68, 137])
def test_what_an_application_did_is_ignored(code):
    """BR-30: a user program's fault is no fault of the GPU."""
    found = xids.lookup(code)

    assert (found.xid_class, found.severity) == ("application", "ignore")


@pytest.mark.parametrize("code", [46, 48, 62, 64, 74, 79, 95, 110, 140, 143, 158])
def test_what_broke_is_fatal_and_says_what_to_do(code):
    """BR-30: codes that need a reset or more take the GPU out of service."""
    found = xids.lookup(code)

    assert (found.xid_class, found.severity) == ("hardware", "fatal")
    assert found.action != "none"


def test_a_lost_gpu_asks_for_a_reboot():
    """BR-30: 79 is the GPU that fell off the bus."""
    found = xids.lookup(79)

    assert found.action == "reboot"
    assert "PCIe" in found.name


@hypothesis.given(st.integers().filter(lambda code: not 1 <= code <= 176))
def test_an_unknown_code_is_not_guessed(code):
    """BR-30: what the catalogue does not know it does not judge, and it does not fail."""
    assert xids.Xid(code, f"XID {code}", "unknown", "unknown", "none") == xids.lookup(code)


def test_the_catalogue_has_every_code_up_to_the_last():
    """No code between 1 and the last of the driver's header is missing or there twice."""
    rows = xids.TABLE.strip().splitlines()

    assert list(range(1, 177)) == [int(row.split()[0]) for row in rows]
    assert set(range(1, 177)) == set(xids.CATALOGUE)


def test_every_row_is_in_plain_words():
    """Names are short, our own, and fit into one line of a taint's explanation."""
    for found in xids.CATALOGUE.values():
        assert re.fullmatch(r"[^\n]{8,80}", found.name)
        assert not NAMED_IN_CAPITALS.search(found.name)


def test_every_action_of_the_vocabulary_is_used_and_no_other():
    """The words for actions and the table cannot drift apart."""
    assert set(typing.get_args(xids.XidAction)) == {
        found.action for found in xids.CATALOGUE.values()
    }


def test_an_ignored_code_asks_for_an_application_at_most():
    """Nothing that is ignored wants the GPU reset."""
    asked = {f.action for f in xids.CATALOGUE.values() if f.severity == "ignore"}

    assert {"none", "restart-app"} == asked
