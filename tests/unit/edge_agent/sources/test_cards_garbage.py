"""AMD and Intel GPUs whose files hold nonsense or cannot be read."""

import errno
import functools
import os
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent import config
from edge_agent.core import normalize, reading
from edge_agent.sources import cards
from support.cards import tree

GPUS = ("rx6900xt", "rx580", "vega-687f", "arc-b580", "arc-a380-i915", "arc-a380-xe")
FILES = [(name, file) for name in GPUS for file in tree.DEVICES[name]["files"]]
OTHERWISE = {"rx580": {"graphics_clock_mhz": 900}}
"""What a device's other files say where the sensor is not to be found: the marked level."""

NUMBER = re.compile(r"-?[0-9]{1,20}")
SPECIAL = (
    "",
    "-1",
    "4294967295",
    "18446744073709551615",
    "99999999999999999999",
    "-273150",
    "nan",
    "1e9",
    "0x10",
    "5\n6",
    "\uff11\uff12",
    "N/A",
    "0: 500Mhz *\n1: 900Mhz *",
    "64 GT/s PCIe",
    "ue: 1",
)
nonsense = st.sampled_from(SPECIAL) | st.text(
    st.characters(exclude_categories=("Cs",)), max_size=30
)


def looked(root, name, files):
    host = tree.Tree(Path(root))
    host.card(name, files=files)
    source = cards.Cards(config.Drm(integrated=True), host=host.host)
    source.available()
    gpus = source.read()[0].gpus
    return normalize.normalize(gpus[0]).gpu if gpus else None


def values(gpu):
    return {name: getattr(gpu, name) for name in reading.READABLE_FIELDS}


@functools.cache
def sound(name):
    with tempfile.TemporaryDirectory() as root:
        return values(looked(root, name, {}))


@settings(max_examples=80, deadline=None)
@given(where=st.sampled_from(FILES), text=nonsense)
def test_nonsense_in_any_file_never_becomes_a_value(where, text):
    """Whatever one file holds, a value is that of the sound file or there is none.

    Only where the nonsense is a number can it be a value: then it is what the file says.
    """
    name, file = where
    before = sound(name)
    with tempfile.TemporaryDirectory() as root:
        after = values(looked(root, name, {file: text}))

    is_empty = not text.strip().strip("\0")  # like a file that is not there
    if is_empty or NUMBER.fullmatch(text.strip()) or "Mhz" in text or "GT/s" in text:
        return
    changed = {key: value for key, value in after.items() if value not in (None, before[key])}

    assert changed in ({}, OTHERWISE.get(name))


@settings(max_examples=30, deadline=None)
@given(text=nonsense)
def test_a_card_without_a_readable_identity_is_no_gpu(text):
    """Nonsense for an identity gives no GPU and no crash."""
    with tempfile.TemporaryDirectory() as root:
        assert looked(root, "rx580", {"device/uevent": text}) is None


@settings(max_examples=30, deadline=None)
@given(percent=st.integers(-(2**31), 2**64))
def test_a_number_is_told_as_it_stands_or_not_at_all(percent):
    """A percentage outside of 0 to 100 is refused, one inside is not altered."""
    with tempfile.TemporaryDirectory() as root:
        gpu = looked(root, "rx580", {"device/gpu_busy_percent": str(percent)})

    assert gpu.utilization_percent == (percent if 0 <= percent <= 100 else None)


@pytest.mark.parametrize("name", ["rx6900xt", "arc-b580"])
@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.EBUSY])
def test_a_file_that_may_not_be_read_costs_its_own_value_only(tmp_path, monkeypatch, name, code):
    """An error of one file is told as this value's failure; all other values stay."""
    files = {"rx6900xt": "temp1_input", "arc-b580": "temp2_input"}
    host = tree.Tree(tmp_path)
    host.card(name)
    source = cards.Cards(host=host.host)
    source.available()
    before = source.read()[0].gpus[0].readings
    _refuse(monkeypatch, files[name], code)

    after = source.read()[0].gpus[0].readings

    assert isinstance(after["temperature_c"], reading.Failed)
    assert files[name] in after["temperature_c"].reason
    kept = before.keys() - {"temperature_c", "utilization_percent", "power_mw"}
    assert {key: before[key] for key in kept} == {key: after[key] for key in kept}


@pytest.mark.parametrize(
    "code", [errno.ENODEV, errno.EOPNOTSUPP, errno.EINVAL, errno.ENXIO, errno.ENOENT]
)
def test_a_file_that_says_there_is_no_such_thing_is_unsupported(tmp_path, monkeypatch, code):
    """The errors by which a driver says that a device lacks a value are no failures."""
    host = tree.Tree(tmp_path)
    host.card("rx6900xt")
    source = cards.Cards(host=host.host)
    source.available()
    _refuse(monkeypatch, "mem_busy_percent", code)

    found = source.read()[0].gpus[0].readings

    assert found["memory_utilization_percent"] is reading.UNSUPPORTED


def _refuse(monkeypatch, name, code):
    plain = os.open

    def refusing(path, *more, **named):
        if str(path).endswith(f"/{name}"):
            raise OSError(code, os.strerror(code))
        return plain(path, *more, **named)

    monkeypatch.setattr(os, "open", refusing)
