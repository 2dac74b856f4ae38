"""One check per reading: what can be true passes, what cannot is None."""

import msgspec
import pytest

from edge_agent.core import checks, reading
from wire.sample import Gpu


def test_every_reading_has_its_check():
    """A reading that the contract gains is checked by its unit, or does not get past this test."""
    assert set(checks.GPU) == set(reading.READABLE_FIELDS)


@pytest.mark.parametrize("name", reading.READABLE_FIELDS)
def test_no_check_takes_nonsense(name):
    """NaN, sentinels, negatives, wrong types: None, whatever the reading."""
    for nonsense in (float("nan"), float("inf"), 2**64 - 1, -(10**9), object(), {"a": -1}, (-1,)):
        assert checks.GPU[name](nonsense) in (None, (str(nonsense),), ("-1",)), nonsense


@pytest.mark.parametrize("name", reading.READABLE_FIELDS)
def test_what_a_check_passes_the_contract_takes(name):
    """The highest value that each check passes is one that the contract takes as well."""
    passed = [
        value
        for candidate in (0, 1, 15, 100, 1024, 10**5, 10**7, 2**53, True, "on", "x", ("a",), (1,))
        if (value := checks.GPU[name](candidate)) is not None
    ] + [value for value in (checks.GPU[name]({"a": 1}),) if value is not None]
    words = [
        word
        for word in ("unified", "counter", "gpu-reset", "off")
        if checks.GPU[name](word) is not None
    ]

    assert passed or words
    for value in (*passed, *words):
        msgspec.convert({"uuid": "A", name: value}, Gpu)


def test_a_pid_is_what_linux_gives():
    """BR-08: above pid_max, 0, negative, a float or a flag is no pid."""
    assert [checks.pid(value) for value in (1, 4_194_304)] == [1, 4_194_304]
    assert [checks.pid(value) for value in (0, -1, 4_194_305, 2.0, "1")] == [None] * 5


def test_text_is_text_whatever_it_was():
    """BR-15: bytes and str give the same; what no JSON can hold is replaced; length is bounded."""
    assert checks.text(b"NVIDIA L4") == checks.text("NVIDIA L4") == "NVIDIA L4"
    assert msgspec.json.encode(checks.text("\ud800"))
    assert len(checks.text("x" * 5000)) == 1024
