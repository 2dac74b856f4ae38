"""Slow change."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import hysteresis
from cloud_processor.core.model import Settled
from cloud_processor.core.policy import Load
from cloud_processor.core.vocabulary import LOADS

RULES = Load()
percents = st.floats(0, 100)


def changes(readings, *, consecutive, hold_ms, step_ms=1000):
    state, found = Settled(), []
    for at, seen in enumerate(readings):
        after = hysteresis.settle(
            state, seen, consecutive=consecutive, hold_ms=hold_ms, now_ms=at * step_ms
        )
        if after.value != state.value:
            found.append((at * step_ms, after.value))
        state = after
    return found


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=60), st.integers(1, 4), st.integers(1, 9)
)
def test_at_most_one_change_within_a_hold(readings, consecutive, hold_s):
    """BR-112: whatever is read, two changes are a hold apart."""
    found = changes(readings, consecutive=consecutive, hold_ms=hold_s * 1000)

    times = [at for at, _ in found]
    assert all(later - at >= hold_s * 1000 for at, later in itertools.pairwise(times))


@given(st.lists(st.sampled_from(["a", "b"]), max_size=60), st.integers(1, 4), st.integers(1, 9))
def test_a_change_needs_as_many_in_a_row(readings, consecutive, hold_s):
    """The value changes only at the end of a run that is long enough."""
    for at, value in changes(readings, consecutive=consecutive, hold_ms=hold_s * 1000):
        last = readings[at // 1000 - consecutive + 1 : at // 1000 + 1]
        assert [value] * consecutive == last


def test_a_candidate_is_forgotten_when_the_value_is_seen_again():
    """Two and two do not make four."""
    state = Settled("a", 0)
    for at, seen in enumerate(["b", "b", "a", "b", "b"]):
        state = hysteresis.settle(state, seen, consecutive=3, hold_ms=1, now_ms=10 + at)

    assert (state.value, state.candidate, state.streak) == ("a", "b", 2)


def test_forgetting_is_at_once():
    """What is not known any more is not held."""
    unknown = hysteresis.forget(Settled("a", 5, "b", 2), 7)

    assert Settled("unknown", 7) == unknown
    assert unknown is hysteresis.forget(unknown, 9)


@given(percents, st.sampled_from([*LOADS, "unknown"]))
def test_a_band_is_stable(percent, current):
    """Seen from the band that a reading leads to, the same reading leads nowhere else."""
    band = hysteresis.band(current, percent, RULES)

    assert band == hysteresis.band(band, percent, RULES)


@given(percents, percents, st.sampled_from(LOADS))
def test_more_load_is_never_a_lower_band(one, other, current):
    """Bands are monotone."""
    low, high = sorted([one, other])
    bands = [LOADS.index(hysteresis.band(current, p, RULES)) for p in (low, high)]

    assert bands == sorted(bands)


@pytest.mark.parametrize(
    ("current", "percent", "band"),
    [
        ("unknown", 2.0, "idle"),
        ("unknown", 95.0, "saturated"),
        ("high", 89.9, "high"),
        ("high", 90.0, "saturated"),
        ("saturated", 80.0, "saturated"),
        ("saturated", 79.9, "high"),
        ("saturated", 1.0, "idle"),
    ],
)
def test_enter_and_leave_have_their_own_borders(current, percent, band):
    """BR-112: between leaving and entering, a reading stays where it is."""
    assert band == hysteresis.band(current, percent, RULES)
