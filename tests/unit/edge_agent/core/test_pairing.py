"""Pairing what both ways tell."""

import hypothesis
import pytest
from hypothesis import strategies as st

from edge_agent.core import folding, pairing

UUID_OF = {"00000000:3B:00.0": "GPU-A"}


def told(gpu="GPU-A", xid=31, count=1, happened_ms=0, ts_unix_ms=0):
    """An XID as one way tells it."""
    return folding.Told(
        gpu_uuid=gpu,
        pci_bus_id=None,
        xid=xid,
        count=count,
        ts_unix_ms=ts_unix_ms,
        happened_ms=happened_ms,
        said="",
    )


def pair(one, pending, *, is_logged=True, now_ms=0):
    """With the inventory of these tests."""
    return pairing.pair(one, pending, is_logged=is_logged, uuid_of=UUID_OF, now_ms=now_ms)


def test_numbers_are_paired_and_what_is_over_stays():
    """Three told and two pending leave one to count; one told and two pending leave one there."""
    pending = pairing.remember((), told(count=2), 0)

    assert pairing.Paired(1, ()) == pair(told(count=3), pending)
    assert [one.count for one in pair(told(), pending).pending] == [1]
    assert pairing.Paired(0, ()) == pair(told(count=2), pending)


@pytest.mark.parametrize("other", [told("GPU-B"), told(xid=79)])
def test_another_gpu_or_code_is_another_xid(other):
    """Nothing but the same GPU and code pairs."""
    pending = pairing.remember((), told(), 0)

    assert pairing.Paired(1, pending) == pair(other, pending)


@pytest.mark.parametrize("gpu", ["GPU-A", "00000000:3B:00.0", None])
def test_a_gpu_is_the_same_by_uuid_by_address_and_without_a_name(gpu):
    """The log knows addresses, NVML knows UUIDs, and of a lost GPU sometimes nothing."""
    pending = pairing.remember((), told(gpu), 0)

    assert pairing.Paired(0, ()) == pair(told(), pending)


@pytest.mark.parametrize(("after_ms", "left"), [(pairing.PAIR_MS, 0), (pairing.PAIR_MS + 1, 1)])
@pytest.mark.parametrize("is_logged", [True, False])
def test_the_other_telling_comes_in_time_or_is_another_xid(after_ms, left, is_logged):
    """Two tellings further apart than the driver can delay one are two XIDs."""
    pending = pairing.remember((), told(), 0)
    late = told(happened_ms=after_ms, ts_unix_ms=after_ms)

    assert left == pair(late, pending, is_logged=is_logged, now_ms=after_ms).count


@pytest.mark.parametrize(
    ("off_ms", "is_logged", "left"),
    [(0, True, 0), (-pairing.DRIFT_MS, True, 0), (pairing.DRIFT_MS + 1, True, 1), (0, False, 1)],
)
def test_an_old_record_pairs_by_when_it_happened(off_ms, is_logged, left):
    """Only the log tells of long ago, and its clock may be off by so much."""
    pending = pairing.remember((), told(ts_unix_ms=10**9), 0)
    old = told(happened_ms=off_ms, ts_unix_ms=10**9 + off_ms)

    assert left == pair(old, pending, is_logged=is_logged, now_ms=10**7).count


def test_a_storm_is_one_entry_a_second():
    """What is pending grows with time, not with the number of XIDs, and is bounded."""
    pending = ()
    for at_ms in range(0, 10_000, 10):
        pending = pairing.remember(pending, told(), at_ms)
    assert [one.count for one in pending] == [100] * 10

    for at_ms in range(0, 10_000_000, 10_000):
        pending = pairing.remember(pending, told(), at_ms)
    assert len(pending) == pairing.PENDING_MAX


def test_what_has_no_code_is_never_paired():
    """Garbage is not remembered and pairs with nothing."""
    pending = pairing.remember((), told(), 0)

    assert pending is pairing.remember(pending, told(xid=None), 0)
    assert pairing.Paired(1, pending) == pair(told(xid=None), pending)


def test_waiting_ends_and_can_begin_anew():
    """A restart gives the other way its time again."""
    pending = pairing.remember((), told(), 0)
    later_ms = 10 * pairing.PAIR_MS

    assert pairing.in_time(pending, later_ms) == ()
    assert [later_ms] == [one.at_ms for one in pairing.wait_anew(pending, later_ms)]


@hypothesis.given(st.lists(st.tuples(st.integers(0, 40_000), st.integers(1, 5), st.booleans())))
def test_numbers_are_conserved(script):
    """Of what is told, all is counted or paired, and no entry is empty or negative."""
    pending, now_ms, waiting = (), 0, 0
    for after_ms, count, is_pairing in script:
        now_ms += after_ms
        if is_pairing:
            found = pair(told(count=count, happened_ms=now_ms), pending, now_ms=now_ms)
            waiting -= count - found.count
            pending = found.pending
        else:
            pending = pairing.remember(pending, told(count=count), now_ms)
            waiting += count
        assert all(one.count > 0 for one in pending)
        assert waiting == sum(one.count for one in pending)
