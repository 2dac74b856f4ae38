"""Words of the decision."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import vocabulary

VALID = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")


@given(st.text(max_size=200))
def test_any_text_becomes_a_valid_label_value(text):
    """BR-107: whatever a product is called, Kubernetes takes the value."""
    value = vocabulary.label_value(text)

    assert len(value) <= 63
    assert VALID.fullmatch(value)
    assert value == vocabulary.label_value(value)


def test_a_product_name_keeps_its_words():
    """BR-107: the name stays readable and stable."""
    assert vocabulary.label_value("NVIDIA TITAN X (Pascal)") == "NVIDIA-TITAN-X-Pascal"


@pytest.mark.parametrize(
    ("gib", "bucket"), [(0, "0"), (0.99, "0"), (1, "1Gi"), (3.9, "2Gi"), (16, "16Gi"), (81, "64Gi")]
)
def test_free_memory_is_told_in_powers_of_two(gib, bucket):
    """The bucket is what fits for sure: the power of two at or below the free memory."""
    assert bucket == vocabulary.memory_bucket(int(gib * 2**30))


def test_unknown_memory_is_unknown():
    """BR-05: a GPU without memory figures is not a full one."""
    assert vocabulary.memory_bucket(None) == "unknown"


@pytest.mark.parametrize(
    ("healths", "word"),
    [
        ((), "unknown"),
        (("ok", "ok"), "ok"),
        (("ok", "unknown"), "unknown"),
        (("degraded", "unknown"), "degraded"),
        (("ok", "failed", "degraded"), "failed"),
    ],
)
def test_the_worst_of_some(healths, word):
    """A node is as well as its worst GPU; of no GPU nothing is known."""
    assert word == vocabulary.worst(healths)
