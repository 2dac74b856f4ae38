"""Findings and versions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire import matrix_findings as findings

found = st.lists(st.tuples(st.sampled_from(findings.GRAVITY), st.text(max_size=5)), max_size=12)


@given(found)
def test_the_gravest_certain_word_wins_and_nothing_is_never_ok(many):
    """ok only when all is ok; of no finding at all, unknown."""
    judged = findings.conclude(many)
    words = {word for word, _ in many}

    assert judged.state == findings.worst(words)
    assert (judged.state == "ok") == (words == {"ok"})
    assert len(judged.reasons) <= findings.REASONS_MAX


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("550.54.15", (550, 54, 15)),
        ("525.53", (525, 53)),
        (" 580.95.05\n", (580, 95, 5)),
        ("550", None),
        ("55.1", None),
        ("5500.1", None),
        ("550.54.15.1", None),
        ("", None),
        (None, None),
    ],
)
def test_driver_versions(text, numbers):
    """Three digits, then one or two numbers, and nothing else."""
    assert findings.driver_numbers(text) == numbers


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1.31", (1, 31)),
        ("v1.31.4+k3s1", (1, 31, 4)),
        ("v1.29.1-eks-61c0bbb", (1, 29, 1)),
        ("26.7.0", (26, 7, 0)),
        ("1", None),
        ("1.31 beta", None),
        ("1.x", None),
        (None, None),
    ],
)
def test_releases(text, numbers):
    """As projects and distributions write them."""
    assert findings.release_numbers(text) == numbers
