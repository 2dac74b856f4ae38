"""The catalogue of XID codes."""

import re

import pytest

from cloud_processor.core import xids


@pytest.mark.parametrize("code", [13, 31, 43, 45])
def test_what_an_application_did_is_ignored(code):
    """BR-30: a user program's fault is no fault of the GPU."""
    assert xids.severity_of(code) == "ignore"
    assert f"XID {code}" == xids.name_of(code)
    assert xids.action_of(code) == "none"


def test_a_lost_gpu_is_fatal():
    """BR-30: the code for a GPU that fell off the bus takes it out of service."""
    assert xids.severity_of(79) == "fatal"
    assert xids.action_of(79) == "reboot"
    assert "PCIe" in xids.name_of(79)


@pytest.mark.parametrize("code", [0, 177, 999])
def test_an_unknown_code_is_not_guessed(code):
    """BR-30: what the catalogue does not know, it does not judge."""
    assert xids.severity_of(code) is None


def test_every_named_code_is_grave_and_within_the_catalogue():
    """Only codes that steer are named, so the table stays short."""
    for code, (severity, _, name) in xids.NAMED.items():
        assert 1 <= code <= xids.LAST_KNOWN
        assert severity in {"degraded", "fatal"}
        assert re.fullmatch(r"[^\n]{8,80}", name)
