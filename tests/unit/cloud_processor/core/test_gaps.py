"""The gap ledger against a plain set."""

from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import gaps
from cloud_processor.core.model import Intake

seqs = st.lists(st.integers(1, 40), max_size=40)


def held(numbers):
    intervals = ()
    for number in numbers:
        intervals = gaps.insert(intervals, number, number)
    return intervals


def runs(numbers):
    found = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


@given(seqs)
def test_intervals_hold_what_was_inserted_in_any_order(numbers):
    """Order and duplicates change nothing; intervals ascend and never touch."""
    assert runs(numbers) == held(numbers)
    assert len(set(numbers)) == gaps.size(held(numbers))
    assert set(numbers) == {n for n in range(42) if gaps.holds(held(numbers), n)}


@given(seqs, st.integers(1, 40), st.integers(0, 10))
def test_a_range_is_as_its_seqs_one_by_one(numbers, first, more):
    """A loss record inserts a range at once."""
    ranged = gaps.insert(held(numbers), first, first + more)

    assert held([*numbers, *range(first, first + more + 1)]) == ranged


@given(seqs, st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)), max_size=5))
def test_the_summary_counts_exactly(numbers, losses):
    """received + missing + explained = all seqs from the lowest to the highest seen."""
    intake = Intake("e", held(numbers), duplicates=3)
    lost = set()
    for first, more in losses:
        intake = gaps.explain(intake, first, first + more)
        lost |= set(range(first, first + more + 1))

    told = gaps.summary(intake)

    span = set(range(min(numbers), max(numbers) + 1)) if numbers else set()
    assert len(set(numbers)) == told.received
    assert len(span - set(numbers) - lost) == told.missing
    assert len((span & lost) - set(numbers)) == told.explained
    assert (max(numbers, default=0), 3 if numbers else 0) == (told.highest_seq, told.duplicates)


@given(seqs, st.lists(st.integers(1, 40), max_size=9), st.integers(1, 40), st.integers(0, 40))
def test_what_is_covered_cannot_come_any_more(numbers, lost, first, more):
    """A range is covered when each of its seqs is held or explained."""
    intake = Intake("e", held(numbers))
    for number in lost:
        intake = gaps.explain(intake, number, number)
    here = set(numbers) | set(lost)

    covered = set(range(first, first + more + 1)) <= here
    assert covered == gaps.covers(intake, first, first + more)


def test_a_gap_between_held_seqs_may_be_explained_in_one_piece():
    """A loss that spans a gap covers it, also when it says more than the gap."""
    intake = gaps.explain(Intake("e", ((1, 5), (9, 12))), 4, 9)

    assert gaps.covers(intake, 1, 12)
    assert not gaps.covers(intake, 1, 13)


def test_intervals_are_bounded_and_the_oldest_gap_is_given_up():
    """A ledger that fills with holes closes the oldest and says which."""
    full = held(range(1, 2 * gaps.INTERVALS_MAX, 2))
    more = gaps.insert(full, 4 * gaps.INTERVALS_MAX, 4 * gaps.INTERVALS_MAX)

    assert (full, None) == gaps.bounded(full)
    kept, given_up = gaps.bounded(more)
    assert given_up == (2, 2)
    assert kept[0] == (1, 3)
    assert len(kept) == gaps.INTERVALS_MAX


def test_explained_intervals_are_bounded_by_dropping_the_oldest():
    """Dropping makes a seq missing again, which is the safe side."""
    intake = Intake("e")
    for number in range(1, 2 * gaps.INTERVALS_MAX + 4, 2):
        intake = gaps.explain(intake, number, number)

    assert len(intake.explained) == gaps.INTERVALS_MAX
    assert intake.explained[0] == (5, 5)


def test_epochs_are_bounded_and_the_newest_stay():
    """A node that loses its spool again and again does not grow our state."""
    intakes = ()
    for number in range(gaps.EPOCHS_MAX + 2):
        intakes = gaps.replace(intakes, Intake(f"{number}"))

    assert [intake.epoch for intake in intakes] == ["2", "3", "4", "5"]
    assert Intake("9") == gaps.find(intakes, "9")
    again = gaps.replace(intakes, Intake("3", ((1, 1),)))
    assert [intake.epoch for intake in again] == ["2", "3", "4", "5"]
    assert gaps.find(again, "3").held == ((1, 1),)
    assert Intake("5", ((2, 2),)) == gaps.replace(again, Intake("5", ((2, 2),)))[-1]


def test_an_epoch_without_seqs_sums_up_to_nothing():
    """Only losses may be known of an epoch."""
    told = gaps.summary(gaps.explain(Intake("e"), 1, 5))

    assert (told.received, told.missing, told.explained, told.highest_seq) == (0, 0, 0, 0)
