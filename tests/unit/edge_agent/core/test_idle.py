"""Energy and idle time, sample by sample."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import idle
from wire.sample import Gpu, Process


def play(gpus, step_ms=1000):
    tally, told = None, []
    for number, gpu in enumerate(gpus):
        tally, one = idle.step(tally, gpu, number * step_ms)
        told.append(one)
    return told


def gpu(percent=0.0, **more):
    return Gpu(uuid="A", utilization_percent=percent, **more)


def test_power_becomes_energy_where_there_is_no_counter():
    """BR-13: no energy counter, 100 W for 60 s: 6000 J marked as integrated, and never 0."""
    told = play([gpu(50, power_mw=100_000)] * 61)

    assert told[0].energy_mj is None
    assert [one.energy_mj for one in told[1:]] == [100_000 * n for n in range(1, 61)]
    assert {one.energy_method for one in told[1:]} == {"integrated"}


def test_without_power_there_is_no_energy():
    """BR-13: neither counter nor power: null, whatever the time, and no method either."""
    told = play([gpu(50)] * 5)

    assert {(one.energy_mj, one.energy_method) for one in told} == {(None, None)}


def test_the_mean_power_of_the_interval_is_used_where_it_is_known():
    """A slow tick integrates what the driver sampled in between, not the moment's value."""
    told = play([gpu(1, power_mw=1, power_mean_mw=50_000)] * 3)

    assert told[-1].energy_mj == 100_000


def test_a_gap_is_not_credited():
    """Ten minutes of silence are not ten minutes at the last power."""
    told = play([gpu(1, power_mw=1000)] * 3, step_ms=600_000)

    assert {one.energy_mj for one in told} == {None}


def test_a_failed_power_reading_leaves_the_energy_where_it_was():
    """One tick without power: the counter stands, it does not vanish and does not run back."""
    told = play([gpu(1, power_mw=1000), gpu(1, power_mw=1000), gpu(1), gpu(1, power_mw=1000)])

    assert [one.energy_mj for one in told] == [None, 1000, 1000, 2000]


def test_the_counter_is_the_hardwares_where_there_is_one():
    """A counter is passed on as it is and marked."""
    told = play([gpu(1, energy_mj=7), gpu(1, energy_mj=9)])

    assert [(one.energy_mj, one.energy_method) for one in told] == [(7, "counter"), (9, "counter")]


def test_idle_counts_from_its_beginning_once_it_is_long_enough():
    """59 s are a pause; at 60 s the whole stretch counts, with its energy from the counter."""
    told = play([gpu(0, energy_mj=n * 30_000) for n in range(91)])

    assert told[59].idle_ms == told[59].idle_total_ms == told[59].idle_energy_mj == 0
    assert (told[60].idle_ms, told[60].idle_total_ms) == (60_000, 60_000)
    assert told[60].idle_energy_mj == 60 * 30_000
    assert (told[90].idle_total_ms, told[90].idle_energy_mj) == (90_000, 90 * 30_000)


def test_work_ends_a_stretch_and_the_totals_stay():
    """Two idle stretches of 70 s with work between add up; the work in between does not count."""
    stretch = [gpu(0, power_mw=10_000)] * 71
    told = play([*stretch, *[gpu(80, power_mw=300_000)] * 10, *stretch])

    assert told[70].idle_total_ms == 70_000
    assert (told[75].idle_ms, told[75].idle_total_ms) == (0, 70_000)
    assert told[-1].idle_total_ms == 140_000
    assert told[-1].idle_energy_mj == 2 * 70 * 10_000


def test_what_is_not_idle():
    """A process at 0 %, a maximum above 0 between two ticks, a lost GPU: none is idle."""
    held = gpu(0, processes=(Process(pid=1),))
    burst = gpu(0, utilization_max_percent=40.0)
    for one in (held, burst, Gpu(uuid="A", state="lost")):
        assert {told.idle_ms for told in play([one] * 100)} == {0}


def test_unknown_utilisation_is_not_called_idle():
    """BR-03: null utilisation leaves idleness unknown; a MIG parent is judged by its processes."""
    assert {one.idle_ms for one in play([Gpu(uuid="A")] * 100)} == {None}
    assert play([Gpu(uuid="A", mig_enabled=True)] * 71)[-1].idle_ms == 70_000


def test_a_suspended_gpu_is_idle():
    """A GPU that sleeps is idle and its energy is not known."""
    told = play([Gpu(uuid="A", state="suspended")] * 71)

    assert (told[-1].idle_ms, told[-1].energy_mj) == (70_000, None)


GPUS = st.builds(
    gpu,
    st.sampled_from([0.0, 50.0, None]),
    power_mw=st.none() | st.integers(0, 500_000),
    energy_mj=st.none() | st.integers(0, 10**9),
)


@given(st.lists(st.tuples(GPUS, st.integers(-5_000, 200_000)), max_size=60))
def test_totals_never_run_backwards(steps):
    """Whatever the readings and the clock do, totals only grow and no time counts twice."""
    tally, now_ms, before = None, 0, (0, 0.0)
    for one, dt_ms in steps:
        now_ms += dt_ms
        tally, _ = idle.step(tally, one, now_ms)
        assert tally.total_ms >= before[0]
        assert tally.total_mj >= before[1]
        before = (tally.total_ms, tally.total_mj)
    assert before[0] <= sum(max(0, dt_ms) for _, dt_ms in steps)
