"""When to look again."""

from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import cadence
from wire.sample import Gpu, Process

LIMITS = cadence.Limits(tick_ms=1000, idle_ms=4000, asleep_ms=30_000)
IDLE = Gpu(uuid="A", utilization_percent=0.0, temperature_c=40.0)
ASLEEP = Gpu(uuid="A", state="suspended")


def play(gpus, limits=LIMITS, size_bytes=1000):
    """Look at each of `gpus` when the pace says so; the waits, in order."""
    pace, waits, since_ms = cadence.Pace(wait_ms=limits.tick_ms), [], 0
    for one in gpus:
        pace = cadence.step(pace, limits, (one,), since_ms=since_ms, spent_bytes=size_bytes)
        since_ms = pace.wait_ms
        waits.append(pace.wait_ms)
    return waits


def test_a_gpu_in_use_is_looked_at_every_tick():
    """Load, or a process at 0 %, however steady, keeps the full rate."""
    busy = Gpu(uuid="A", utilization_percent=90.0)
    held = Gpu(uuid="A", utilization_percent=0.0, processes=(Process(pid=1),))

    assert set(play([busy] * 200)) == set(play([held] * 200)) == {1000}


def test_a_calm_idle_node_is_looked_at_less_often():
    """After a minute in which nothing happens the wait doubles up to `idle_ms`, not further."""
    waits = play([IDLE] * 100)

    assert set(waits[:60]) == {1000}
    assert waits[-1] == 4000
    assert sorted(set(waits)) == [1000, 2000, 4000]


def test_sleeping_gpus_are_looked_at_rarely():
    """All suspended: up to 30 s; one that is awake keeps the node at the idle rate."""
    assert play([ASLEEP] * 100)[-1] == 30_000
    pace = cadence.Pace(wait_ms=30_000, calm_ms=10**6, gpus=(ASLEEP, IDLE))
    found = cadence.step(pace, LIMITS, (ASLEEP, IDLE), since_ms=1, spent_bytes=0)
    assert found.wait_ms == 4000


def test_any_change_brings_the_full_rate_back_at_once():
    """Load, heat, memory, throttling, recovery action, MIG, a GPU that wakes, comes or goes."""
    calm = [IDLE] * 80
    changes = [
        Gpu(uuid="A", utilization_percent=6.0, temperature_c=40.0),
        Gpu(uuid="A", utilization_percent=0.0, temperature_c=44.0),
        Gpu(uuid="A", utilization_percent=0.0),
        Gpu(uuid="A", utilization_percent=0.0, temperature_c=40.0, throttle_reasons=("x",)),
        Gpu(uuid="A", utilization_percent=0.0, temperature_c=40.0, recovery_action="gpu-reset"),
        Gpu(uuid="A", utilization_percent=0.0, temperature_c=40.0, mig_enabled=True),
        ASLEEP,
        Gpu(uuid="B", utilization_percent=0.0, temperature_c=40.0),
    ]
    for change in changes:
        assert play([*calm, change])[-2:] == [4000, 1000], change


def test_noise_is_no_change():
    """Temperature and memory within their steps do not hold the rate up."""
    wobble = [
        Gpu(uuid="A", utilization_percent=0.0, temperature_c=40.0 + n % 2) for n in range(100)
    ]

    assert play(wobble)[-1] == 4000


def test_a_budget_lengthens_the_wait():
    """1,000 bytes a look and 8,640,000 a day: 10 s a look in the long run, after the saved hour."""
    limits = cadence.Limits(tick_ms=1000, idle_ms=4000, asleep_ms=30_000, bytes_per_day=8_640_000)
    busy = Gpu(uuid="A", utilization_percent=90.0)
    waits = play([busy] * 1000, limits)

    assert set(waits[:30]) == {1000}
    assert all(abs(wait - 10_000) <= 1000 for wait in waits[-100:])


@given(st.lists(st.sampled_from([IDLE, ASLEEP, Gpu(uuid="A", utilization_percent=50.0)])))
def test_the_wait_stays_within_its_limits(gpus):
    """Never below the tick, never above what the mood allows."""
    for gpu, wait_ms in zip(gpus, play(gpus), strict=True):
        assert LIMITS.tick_ms <= wait_ms <= LIMITS.asleep_ms
        if gpu.utilization_percent:
            assert wait_ms == LIMITS.tick_ms


@given(
    st.integers(10_000, 10**8),
    st.lists(st.integers(0, 20_000), min_size=200, max_size=400),
)
def test_a_budget_is_kept(bytes_per_day, sizes):
    """Over any run the bytes stay within the budget of its time, the saved hour, and what the
    longest wait allows.
    """
    limits = cadence.Limits(tick_ms=1000, idle_ms=1000, asleep_ms=1000, bytes_per_day=bytes_per_day)
    pace, since_ms, passed_ms, spent = cadence.Pace(wait_ms=1000), 0, 0, 0
    for size in sizes:
        pace = cadence.step(pace, limits, (IDLE,), since_ms=since_ms, spent_bytes=size)
        passed_ms += since_ms
        spent += size
        since_ms = pace.wait_ms
        if since_ms == cadence.WAIT_MS_MAX:
            return
    per_ms = bytes_per_day / cadence.DAY_MS
    assert spent <= per_ms * (passed_ms + cadence.SAVED_MS_MAX) + 3 * max(sizes)
