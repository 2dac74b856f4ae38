"""Clocks that differ."""

from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import skew
from cloud_processor.core.model import Skew

DAY_MS = 86_400_000


def measured(*pairs, newest=True):
    known = Skew()
    for sent_ms, arrived_ms in pairs:
        known = skew.after(known, sent_unix_ms=sent_ms, arrived_unix_ms=arrived_ms, newest=newest)
    return known


@given(st.integers(-DAY_MS, DAY_MS), st.lists(st.integers(0, 5000), min_size=1, max_size=20))
def test_the_shortest_journey_is_the_measure(ahead_ms, journeys):
    """A clock that is off by hours changes no age; only the journey counts."""
    base = 10 * DAY_MS
    pairs = [
        (base + i * 1000 + ahead_ms, base + i * 1000 + journey)
        for i, journey in enumerate(journeys)
    ]

    known = measured(*pairs)

    assert min(journeys) - ahead_ms == skew.least_ms(known)
    sent_ms, arrived_ms = pairs[-1]
    age_ms = skew.age_ms(
        known, ts_unix_ms=sent_ms - 7, sent_unix_ms=sent_ms, arrived_unix_ms=arrived_ms
    )
    assert 7 + journeys[-1] - min(journeys) == age_ms


def test_nothing_measured_is_nothing_known():
    """Before the first message a record is as old as it waited."""
    assert skew.ahead_ms(Skew()) is None
    assert skew.age_ms(Skew(), ts_unix_ms=10, sent_unix_ms=15, arrived_unix_ms=99_999) == 5


def test_a_clock_ahead_is_positive():
    """BR-45: two hours ahead, less the journey."""
    known = measured((7_200_000 + 1000, 1040))

    assert skew.ahead_ms(known) == 7_200_000 - 40


def test_after_a_long_break_old_messages_are_known_to_be_old():
    """What waited out an outage of the bridge does not set the measure."""
    known = measured((1_000, 1_040), (10_000, 3_600_000))

    age_ms = skew.age_ms(known, ts_unix_ms=10_000, sent_unix_ms=10_000, arrived_unix_ms=3_600_000)

    assert age_ms == 3_600_000 - 10_000 - 40


def test_the_measure_follows_a_slow_drift():
    """Only this period and the one before it count."""
    known = measured((1_000, 1_010), (70_000, 70_050), (130_000, 130_060), (131_000, 131_055))

    assert skew.least_ms(known) == 50


def test_a_clock_that_was_set_back_starts_anew():
    """BR-43: the newest message was sent before an earlier one."""
    known = measured((DAY_MS, DAY_MS + 40), (DAY_MS // 2, DAY_MS + 1040))

    assert skew.least_ms(known) == DAY_MS // 2 + 1040


def test_an_old_message_does_not_look_like_a_clock_set_back():
    """A message that comes late and out of order tells nothing about the clock."""
    known = skew.after(
        measured((100_000, 100_040)), sent_unix_ms=50_000, arrived_unix_ms=100_100, newest=False
    )

    assert skew.least_ms(known) == 40
    assert known.sent_unix_ms == 100_000
