"""What samples amount to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import window
from cloud_processor.core.model import Window
from support import judging
from wire.sample import Gpu

optional = st.none() | st.integers(0, 100)
gpus = st.lists(
    st.builds(
        Gpu,
        uuid=st.sampled_from(["a", "b", "c"]),
        utilization_percent=optional.map(lambda v: None if v is None else float(v)),
        memory_used_bytes=optional,
        power_mw=optional,
        energy_mj=optional,
        temperature_c=optional,
    ),
    max_size=3,
    unique_by=lambda g: g.uuid,
)
samples = st.lists(
    st.builds(lambda ts, gpus: judging.sample(1, ts, *gpus), st.integers(0, 9_999), gpus),
    max_size=8,
)


def folded(many):
    content = Window()
    for one in many:
        content = window.add(content, one)
    return content


def told(content):
    return window.to_aggregate(
        content, cluster="demo", node="n", start_unix_ms=0, size_ms=10_000, closed_by="clock"
    )


@given(samples, st.randoms())
def test_order_changes_nothing(many, dice):
    """Late and early samples amount to the same (whole numbers, so to the last bit)."""
    shuffled = list(many)
    dice.shuffle(shuffled)

    assert told(folded(many)) == told(folded(shuffled))


@given(samples, samples, samples)
def test_merging_is_associative_and_is_adding(one, two, three):
    """However samples are split over workers, the window is the same."""
    a, b, c = folded(one), folded(two), folded(three)

    assert window.merge(window.merge(a, b), c) == window.merge(a, window.merge(b, c))
    assert told(window.merge(a, b)) == told(folded([*one, *two]))


@given(samples)
def test_counts_conserve(many):
    """Each sample and each reading is counted once, values only where there are any."""
    aggregate = told(folded(many))

    assert len(many) == aggregate.samples == aggregate.revision
    readings = [gpu for one in many for gpu in one.gpus]
    assert len(readings) == sum(g.readings for g in aggregate.gpus)
    power = [gpu.power_mw for gpu in readings if gpu.power_mw is not None]
    assert len(power) == sum(g.power_mw.count for g in aggregate.gpus if g.power_mw is not None)


def test_an_impossible_value_that_was_kept_out_leaves_the_others():
    """BR-12: of three power readings the middle one is null; the other two make the window."""
    many = [
        judging.sample(n, n, judging.gpu(power_mw=mw))
        for n, mw in enumerate([52000, None, 51000], 1)
    ]

    power = told(folded(many)).gpus[0].power_mw

    assert (power.count, power.min, power.mean, power.max) == (2, 51000, 51500.0, 52000)


def test_a_gpu_without_figures_has_none():
    """BR-05: no memory figures are no figures, not zero."""
    bare = judging.sample(1, 1, Gpu(uuid="GB10"))

    found = told(folded([bare])).gpus[0]

    assert found.readings == 1
    assert found.memory_used_bytes is found.power_mw is found.energy_mj is None


@pytest.mark.parametrize(
    ("readings", "growth"),
    [([(1, 100), (3, 160), (2, 130)], 60), ([(1, 500), (2, 20)], None), ([(1, 7)], 0)],
)
def test_energy_is_the_growth_of_a_counter(readings, growth):
    """First to last by time, in any order of arrival; a counter that was reset tells nothing."""
    many = [judging.sample(1, at, judging.gpu(energy_mj=mj)) for at, mj in readings]

    assert growth == told(folded(many)).gpus[0].energy_mj


def test_gpus_are_named_by_uuid_in_a_stable_order():
    """BR-17: the order of a sample's GPUs is not their identity."""
    one = judging.sample(1, 1, judging.gpu("b", 10.0), judging.gpu("a", 90.0))
    two = judging.sample(2, 2, judging.gpu("a", 90.0), judging.gpu("b", 10.0))

    found = told(folded([one, two])).gpus

    assert [(g.uuid, g.utilization_percent.mean) for g in found] == [("a", 90.0), ("b", 10.0)]


@given(st.integers(0, 2**50), st.integers(1000, 3_600_000))
def test_a_time_belongs_to_one_window(ts_ms, size_ms):
    """Windows tile the time."""
    start = window.start_of(ts_ms, size_ms)

    assert start <= ts_ms < start + size_ms
    assert start % size_ms == 0
