"""A GPU's energy shared among its processes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import attribution
from support.gpus import sample
from wire.sample import Gpu, Process


def process(pid: int, percent: float | None = None, **more) -> Process:
    return Process(pid=pid, sm_utilization_percent=percent, **more)


def gpu(energy_mj: int | None, *processes: Process, omitted: int = 0) -> Gpu:
    return Gpu(uuid="A", energy_mj=energy_mj, processes=processes, processes_omitted_count=omitted)


def used(ledger: attribution.Ledger, level: str = "process") -> dict:
    return {
        who.pid or who.container_id or who.pod_uid: mj
        for who, mj in ledger.used_mj.items()
        if who.level == level
    }


def after(*gpus: Gpu) -> attribution.Ledger:
    ledger = attribution.EMPTY
    for one in gpus:
        ledger = attribution.step(ledger, sample(one))
    return ledger


def test_energy_goes_by_shares_of_the_multiprocessors():
    """Three parts and one part of 400 mJ."""
    both = (process(1, 60.0), process(2, 20.0))

    assert used(after(gpu(1000, *both), gpu(1400, *both))) == {1: 300.0, 2: 100.0}


def test_who_is_alone_has_it_all():
    """A single process needs no share; one of which others were left out does."""
    alone = process(1)

    assert used(after(gpu(0, alone), gpu(500, alone))) == {1: 500.0}
    assert used(after(gpu(0, alone, omitted=1), gpu(500, alone, omitted=1))) == {}


@pytest.mark.parametrize("percents", [(50.0, None), (0.0, 0.0), (None, None)])
def test_nobody_is_charged_when_shares_are_not_known(percents):
    """Energy without an owner is better than energy with a wrong one."""
    both = tuple(process(pid, percent) for pid, percent in enumerate(percents, start=1))

    assert used(after(gpu(0, *both), gpu(500, *both))) == {}


def test_what_was_charged_stays_while_shares_are_not_known():
    """A counter does not fall back because one reading failed."""
    known = (process(1, 60.0), process(2, 20.0))
    unknown = (process(1), process(2, 20.0))

    assert used(after(gpu(0, *known), gpu(400, *known), gpu(800, *unknown))) == {
        1: 300.0,
        2: 100.0,
    }


def test_who_is_gone_is_forgotten():
    """Nothing is kept of processes that ended: the ledger is as large as the sample."""
    assert used(after(gpu(0, process(1)), gpu(500, process(1)), gpu(900, process(2)))) == {2: 400.0}
    assert after(gpu(0, process(1)), gpu(5)).used_mj == {}


@pytest.mark.parametrize("energy_mj", [None, 0, 100])
def test_a_counter_that_is_lost_or_starts_anew_charges_nobody(energy_mj):
    """BR-13: no reading is not a step; a reset is not a negative one."""
    alone = process(1)
    ledger = after(gpu(100, alone), gpu(energy_mj, alone))

    assert used(ledger) == {1: 0.0}


def test_containers_and_pods_are_sums():
    """Two processes of one container, two containers of one pod."""
    three = (
        process(1, 10.0, container_id="x", pod_uid="p"),
        process(2, 20.0, container_id="x", pod_uid="p"),
        process(3, 10.0, container_id="y", pod_uid="p"),
    )
    ledger = after(gpu(0, *three), gpu(400, *three))

    assert used(ledger, "container") == {"x": 300.0, "y": 100.0}
    assert used(ledger, "pod") == {"p": 400.0}


@given(
    st.lists(st.floats(min_value=0.1, max_value=100), min_size=1, max_size=8),
    st.lists(st.integers(min_value=0, max_value=10**6), min_size=2, max_size=6),
)
def test_the_parts_add_up_to_the_whole(percents, steps):
    """Nothing is charged twice and nothing is lost while all shares are known."""
    processes = tuple(process(pid, percent) for pid, percent in enumerate(percents, start=1))
    total, ledger = 0, attribution.EMPTY
    for spent_mj in steps:
        total += spent_mj
        ledger = attribution.step(ledger, sample(gpu(total, *processes)))

    assert sum(used(ledger).values()) == pytest.approx(total - steps[0])
