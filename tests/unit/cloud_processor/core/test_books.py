"""Counting: each record once, each sample in its window, windows kept only while they may grow."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import policy
from support import judging
from support.judging import EPOCH, T0_MS, Shell, sample

OTHER_EPOCH = "fedcba9876543210"
WINDOW_MS = 10_000


def start_of(ts_ms):
    return ts_ms - ts_ms % WINDOW_MS


def truth(samples):
    return Counter(start_of(one.ts_unix_ms) for one in samples)


def counted(shell):
    return {start: one.samples for start, one in shell.best.items()}


def life(count):
    """Samples and events of a node, by seq: each third record is an event."""
    return [
        judging.event(seq, T0_MS + seq * 1000, "cuda-out-of-memory")
        if seq % 3 == 0
        else sample(seq, T0_MS + seq * 1000)
        for seq in range(1, count + 1)
    ]


@st.composite
def deliveries(draw):
    """Some minutes of a node, cut into messages, on any lane, repeated, shuffled, with pauses."""
    records = life(draw(st.integers(1, 60)))
    parcels = []
    while records:
        size = draw(st.integers(1, 12))
        parcels.append((draw(st.sampled_from(["live", "backlog"])), records[:size]))
        records = records[size:]
    repeats = draw(st.lists(st.sampled_from(parcels), max_size=4))
    shuffled = draw(st.permutations(parcels + repeats))
    return [(lane, parcel, draw(st.sampled_from([10, 1000, 8000]))) for lane, parcel in shuffled]


@given(deliveries())
def test_counts_conserve_for_any_delivery(story):
    """The highest revisions add up to the distinct samples: any order, duplication, lane mix."""
    shell = Shell()
    sent = {}
    for lane, parcel, pause_ms in story:
        shell.now_ms += pause_ms
        shell.tick()
        shell.send(*parcel, lane=lane)
        sent |= {record.seq: record for record in parcel}
    shell.now_ms += 60_000
    shell.tick()

    samples = [r for r in sent.values() if isinstance(r, judging.Sample)]
    assert truth(samples) == counted(shell)
    assert not shell.state.books.open
    assert shell.windows.keys() == shell.state.books.spans.keys()


@given(deliveries())
def test_the_ledger_knows_what_came(story):
    """received, missing and duplicates are exact for any delivery."""
    shell = Shell()
    seen, duplicates = set(), 0
    for lane, parcel, _ in story:
        shell.send(*parcel, lane=lane)
        duplicates += sum(r.seq in seen for r in parcel)
        seen |= {r.seq for r in parcel}

    (intake,) = shell.state.books.intakes
    assert len(seen) == sum(b - a + 1 for a, b in intake.held)
    assert duplicates == intake.duplicates


def test_in_a_quiet_life_no_window_is_stored():
    """A complete window is published once and forgotten."""
    shell = Shell()
    shell.run(120)

    assert shell.stores == 0
    assert not shell.windows
    assert {"watermark"} == {one.closed_by for one in shell.aggregates}
    assert len(shell.best) == len(shell.aggregates)
    assert len(shell.state.books.spans) == len(shell.state.books.open) <= 3


def test_after_a_cut_only_the_edges_are_stored_until_the_backlog_is_in():
    """The windows at both ends of a gap wait for their missing samples; nothing else does."""
    shell = Shell()
    shell.run(34)
    ts_ms = shell.now_ms - judging.JOURNEY_MS
    missed = [sample(shell.seq + n, ts_ms + n * 1000) for n in range(1, 301)]
    shell.wait(300_000)
    shell.seq += 300
    shell.run(40)
    assert len(shell.windows) == 2

    for at in range(0, 300, 40):
        shell.send(*missed[at : at + 40], lane="backlog")
        assert len(shell.windows) <= 3
    shell.run(20)

    assert not shell.windows
    closed = {
        start: n for start, n in counted(shell).items() if start not in shell.state.books.open
    }
    assert {10} == set(list(closed.values())[1:-1])
    assert "amended" in {one.closed_by for one in shell.aggregates}


def test_a_loss_that_is_explained_completes_the_windows_at_its_edges():
    """What the agent has given up will never come, so nothing waits for it."""
    shell = Shell()
    shell.run(25)
    shell.wait(60_000)
    shell.seq += 60
    shell.run(25)
    assert len(shell.windows) == 2

    shell.seq += 1
    shell.send(judging.loss(shell.seq, shell.now_ms, 26, 85), lane="events")
    shell.run(25)

    assert not shell.windows
    assert "loss" in shell.names()
    told = shell.verdict.intake or shell.heartbeats[-1].intake
    assert (told.missing, told.explained) == (0, 60)


def test_a_loss_that_makes_no_sense_explains_nothing():
    """From 9 to 3 is no range."""
    shell = Shell()
    shell.send(judging.loss(1, T0_MS, 9, 3), lane="events")

    assert shell.state.books.intakes[0].explained == ()


def test_a_window_closes_by_the_clock_when_nothing_comes():
    """BR-88: three samples, then silence: the window is published within the set time."""
    shell = Shell()
    shell.run(3)
    assert not shell.aggregates

    shell.wait(6_000)

    assert sum(one.samples for one in shell.aggregates) == 3
    assert {"clock"} == {one.closed_by for one in shell.aggregates}
    assert shell.verdict.telemetry == "stale"


def test_a_window_that_was_closed_by_the_clock_is_taken_up_again():
    """A pause within a window: what comes after it still counts in the same window."""
    shell = Shell(now_ms=T0_MS + 100)
    shell.run(2)
    shell.wait(5_500, step_ms=100)
    (first,) = shell.aggregates
    shell.run(12)

    assert first.samples < shell.best[first.window_start_unix_ms].samples
    assert not shell.windows


def test_a_sample_for_a_closed_window_amends_it_at_once():
    """A late sample is not lost, and the new aggregate has the higher revision."""
    shell = Shell()
    shell.run(5)
    late = sample(6, shell.now_ms + 1000)
    shell.seq += 1
    shell.now_ms += 1000
    shell.run(20)
    before = len(shell.aggregates)

    shell.send(late)

    (amended,) = shell.aggregates[before:]
    assert amended.closed_by == "amended"
    start = start_of(late.ts_unix_ms)
    assert [a.samples for a in shell.aggregates if a.window_start_unix_ms == start] == [9, 10]


def test_several_late_samples_of_one_message_amend_a_window_once():
    """One aggregate for each window a message touches."""
    shell = Shell()
    shell.run(25)

    shell.send(*[sample(1000 + n, T0_MS + n * 1000) for n in range(20)], lane="backlog")

    assert sum(one.closed_by == "amended" for one in shell.aggregates) == 2


def test_a_future_clock_closes_only_its_own_windows():
    """BR-45: two hours ahead; windows are by the node's own clock, and all count."""
    shell = Shell()
    for seq in range(1, 41):
        shell.now_ms += 1000
        shell.send(sample(seq, shell.now_ms + 7_200_000), sent_ms=shell.now_ms + 7_200_010)
        shell.tick()
    shell.wait(10_000)

    assert sum(counted(shell).values()) == 40
    assert "clock-skew" in shell.names()
    assert shell.names().count("clock-skew") == 1


def test_a_clock_set_back_loses_no_sample():
    """BR-43: twelve hours back in the middle; all are counted, the step is reported once."""
    shell = Shell()
    shell.run(5)
    for seq in range(6, 31):
        shell.now_ms += 1000
        ts_ms = shell.now_ms - 43_200_000
        shell.send(sample(seq, ts_ms), sent_ms=ts_ms + 10)
        shell.tick()
    shell.wait(10_000)

    assert sum(counted(shell).values()) == 30
    assert shell.names().count("clock-set-back") == 1
    assert shell.verdict.load != "low"


def test_a_window_with_samples_of_two_epochs_counts_both():
    """A spool is lost: seqs begin anew, nothing is taken for a duplicate."""
    shell = Shell(now_ms=T0_MS)
    shell.run(4)
    for seq in range(1, 31):
        shell.now_ms += 1000
        shell.send(sample(seq, shell.now_ms), epoch=OTHER_EPOCH)
    shell.wait(10_000)

    assert sum(counted(shell).values()) == 34
    assert [i.epoch for i in shell.state.books.intakes] == [EPOCH, OTHER_EPOCH]


@pytest.mark.parametrize("rules", [{"kept_max": 2}, {"kept_ms": 60_000}])
def test_windows_that_wait_are_bounded(rules):
    """When the bound bites, the oldest is given up, and that is told."""
    shell = Shell(policy.parse({"windows": rules}))
    for _ in range(6):
        shell.run(25)
        shell.seq += 5  # five that never come
        shell.wait(30_000)

    assert len(shell.windows) <= 4
    assert "window-forgotten" in shell.names()
    assert shell.windows.keys() == shell.state.books.spans.keys() - shell.state.books.open.keys()


def test_too_many_gaps_are_told():
    """The ledger is bounded; what it gives up is reported."""
    shell = Shell()
    shell.send(*[sample(seq, T0_MS) for seq in range(1, 520, 2)], lane="backlog")

    assert "gap-given-up" in shell.names()


def test_what_is_too_old_to_wait_for_is_counted_and_not_kept():
    """A sample older than the bound is published; the table never hears of its window."""
    shell = Shell()
    shell.run(3)
    old_ms = shell.now_ms - shell.policy.windows.kept_ms - 60_000
    shell.send(sample(900, old_ms), lane="backlog")

    assert shell.aggregates[-1].window_start_unix_ms == start_of(old_ms)
    assert not shell.windows
    assert shell.stores == 0
    assert "window-forgotten" in shell.names()
