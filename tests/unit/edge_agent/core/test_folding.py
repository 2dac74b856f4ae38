"""Folds: the first at once, the rest counted, nothing lost."""

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from edge_agent.core import folding


def told(at_ms=0, count=1, said=""):
    """An XID 31 that happened at this moment of both clocks."""
    return folding.Told(
        gpu_uuid="GPU-A",
        pci_bus_id=None,
        xid=31,
        count=count,
        ts_unix_ms=at_ms,
        happened_ms=at_ms,
        said=said,
    )


def test_the_first_leaves_at_once_and_equal_ones_at_the_folds_end():
    """One event now, one a minute later that carries number and times of the rest."""
    first = folding.add(None, told(0))
    again = folding.add(first.fold, told(10))
    more = folding.add(again.fold, told(50, count=4, said="words"))
    before = folding.settle(more.fold, folding.FOLD_MS - 1)
    end = folding.settle(more.fold, folding.FOLD_MS)

    assert (first.event.count, first.event.ts_last_unix_ms) == (1, None)
    assert [again.event, more.event, before.event] == [None] * 3
    assert (end.event.count, end.event.ts_unix_ms, end.event.ts_last_unix_ms) == (5, 10, 50)
    assert end.event.detail.endswith(": words")


def test_a_fold_that_counted_nothing_is_forgotten():
    """After a minute of silence the next one goes out at once again."""
    first = folding.add(None, told(0))
    after = folding.settle(first.fold, folding.FOLD_MS)

    assert folding.Folded(None) == after


def test_a_fold_that_counted_begins_anew():
    """In a storm that goes on, one record leaves each minute, not two."""
    first = folding.add(None, told(0))
    again = folding.add(first.fold, told(1))
    next_one = folding.add(again.fold, told(folding.FOLD_MS))

    assert (next_one.event.count, next_one.fold.count) == (1, 1)


@pytest.mark.parametrize("from_ms", [1, 10**9])
def test_a_fold_of_another_clock_is_over(from_ms):
    """A monotonic clock that began anew holds nothing back."""
    first = folding.add(None, told(from_ms))
    again = folding.add(first.fold, told(from_ms + 1))

    assert folding.settle(again.fold, 0).event.count == 1


def test_times_are_the_outer_ones():
    """What is told late may have happened before: the event spans all of it."""
    first = folding.add(None, told(100))
    fold = folding.add(folding.add(first.fold, told(100)).fold, told(50)).fold
    event = folding.settle(folding.end(fold, 200), 200).event

    assert (event.ts_unix_ms, event.ts_last_unix_ms) == (50, 100)


def test_a_long_text_is_cut_to_what_the_contract_takes():
    """The driver's words never make a record that the contract refuses."""
    event = folding.add(None, told(said="\ud800" + "x" * 5_000)).event

    assert len(event.detail) == folding.DETAIL_CHARS_MAX
    assert event == msgspec.json.decode(msgspec.json.encode(event), type=type(event))


@hypothesis.given(
    st.lists(st.tuples(st.integers(-200_000, 400_000), st.integers(1, 9), st.booleans()))
)
def test_counts_are_conserved(script):
    """Whatever the times: the events' counts and the fold's sum to what was told."""
    fold, left, now_ms = None, 0, 0
    for delta_ms, count, is_tick in script:
        now_ms += delta_ms
        if not is_tick:
            left += count
            done = folding.add(fold, told(max(0, now_ms), count))
        elif fold is not None:
            done = folding.settle(fold, now_ms)
        else:
            continue
        fold = done.fold
        if done.event is not None:
            left -= done.event.count
            assert done.event.count >= 1
            assert (done.event.ts_last_unix_ms or done.event.ts_unix_ms) >= done.event.ts_unix_ms

    assert left == (fold.count if fold else 0)
