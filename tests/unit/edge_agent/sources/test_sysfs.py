"""One small file as a reading: value, unsupported, or failed."""

import errno
import os

import pytest

from edge_agent.core import reading
from edge_agent.sources import sysfs
from support.cards import tree


def test_a_number_is_what_the_file_says(tmp_path):
    """A whole number with its line's end is itself, below zero, too."""
    assert sysfs.number(tree.write(tmp_path / "a", "0")) == 0
    assert sysfs.number(tree.write(tmp_path / "b", "-40000")) == -40_000


@pytest.mark.parametrize("text", ["", " \n", "\0"])
def test_an_empty_file_is_unsupported(tmp_path, text):
    """Some drivers leave the file of a value they do not have empty."""
    assert sysfs.number(tree.write(tmp_path / "a", text)) is reading.UNSUPPORTED


@pytest.mark.parametrize("text", ["x", "1.5", "1 2", "0x10", "1e3", "\uff11", "9" * 21, "+1"])
def test_what_is_no_whole_number_is_a_failure(tmp_path, text):
    """The failure names the file and shows what stood there."""
    found = sysfs.number(tree.write(tmp_path / "power1_cap", text))

    assert isinstance(found, reading.Failed)
    assert "power1_cap" in found.reason


@pytest.mark.parametrize("code", sorted(sysfs.NOT_THERE | {errno.EIO, errno.EACCES, errno.EBUSY}))
@pytest.mark.parametrize("call", ["open", "read"])
def test_errors(tmp_path, monkeypatch, code, call):
    """What says that there is no such thing is unsupported, every other error a failure;

    the kernel may say it at once or only when the content is asked for.
    """
    file = tree.write(tmp_path / "value", "5")

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, refuse)
    found = sysfs.number(file)

    assert isinstance(found, reading.Unsupported) is (code in sysfs.NOT_THERE)
    assert isinstance(found, reading.Unsupported | reading.Failed)


def test_a_folder_is_a_failure(tmp_path):
    """A folder where a file should be has no value."""
    assert isinstance(sysfs.number(tmp_path), reading.Failed)


def test_the_first_file_that_is_there_counts(tmp_path):
    """A file that is there and fails is not passed over: it may say the opposite of the next."""
    sound, broken = tree.write(tmp_path / "a", "5"), tree.write(tmp_path / "b", "x")

    assert sysfs.first([tmp_path / "none", sound]) == 5
    assert isinstance(sysfs.first([broken, sound]), reading.Failed)
    assert sysfs.first([]) is reading.UNSUPPORTED


def test_units(tmp_path):
    """Scales apply to numbers and leave the rest as it is."""
    assert sysfs.scaled(36_500, sysfs.thousandth) == 36
    assert sysfs.scaled(54_500, sysfs.celsius) == 54.5
    assert sysfs.scaled(798_080_000, sysfs.mhz) == 798
    assert sysfs.scaled(reading.UNSUPPORTED, sysfs.mhz) is reading.UNSUPPORTED
    assert sysfs.or_none(sysfs.number(tmp_path / "none")) is None
