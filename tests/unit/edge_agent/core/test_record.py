"""From observations to records."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import cadence, reading, record
from wire.sample import Event, GpuInventory, Sample

LIMITS = cadence.Limits(tick_ms=1000, idle_ms=4000, asleep_ms=30_000)
NEW = record.State(pace=cadence.Pace(wait_ms=1000))


def look(*uuids, source="nvml", ts_unix_ms=None, events=(), complete=True, **readings):
    gpus = tuple(reading.RawGpu(uuid=uuid, readings=readings) for uuid in uuids)
    one = reading.Observation(ts_unix_ms=ts_unix_ms, gpus=gpus, events=events, complete=complete)
    inventory = tuple(
        GpuInventory(uuid=uuid, vendor="nvidia", pci_bus_id=f"00000000:0{n}:00.0")
        for n, uuid in enumerate(uuids)
    )
    return record.Look(source=source, observations=(one,), inventory=inventory)


def at(now_ms, wall_ms=None):
    wall_ms = 1_790_000_000_000 + now_ms if wall_ms is None else wall_ms
    return record.Moment(now_ms=now_ms, now_unix_ms=wall_ms)


def samples(step):
    return [one for one in step.records if isinstance(one, Sample)]


def events(step):
    return [one.event for one in step.records if isinstance(one, Event)]


def test_the_gpus_of_all_sources_make_one_sample():
    """One sample a tick; a UUID that two sources tell stands once, as the first tells it."""
    first = look("A", "B", utilization_percent=7)
    second = look("B", "C", source="drm", utilization_percent=9)
    step = record.step(NEW, [first, second], at(0), LIMITS)

    (sample,) = samples(step)
    assert [(gpu.uuid, gpu.utilization_percent) for gpu in sample.gpus] == [
        ("A", 7),
        ("B", 7),
        ("C", 9),
    ]


def test_events_come_before_the_sample():
    """They are more urgent, and steering must not see the sample first."""
    xid = reading.RawEvent(event="xid", gpu_uuid="A", xid=79)
    step = record.step(NEW, [look("A", events=(xid,))], at(0), LIMITS)

    assert [type(one) for one in step.records] == [Event, Sample]


def test_a_source_that_only_hears_makes_no_sample():
    """The kernel's log has no GPUs: without another source there is nothing to sample."""
    step = record.step(NEW, [look(source="kmsg", complete=False)], at(0), LIMITS)

    assert step.records == ()


def test_a_lost_gpu_is_lost_to_its_own_source():
    """BR-21: what AMD's source says does not find NVIDIA's cards missing."""
    state = record.step(NEW, [look("N"), look("A", source="drm")], at(0), LIMITS).state
    step = record.step(state, [look("A", source="drm")], at(1000), LIMITS)

    assert events(step) == []
    assert [gpu.uuid for gpu in samples(step)[0].gpus] == ["A"]


def test_each_moment_of_a_recording_is_a_sample():
    """Three moments in one read: three samples with their own times, one interval."""
    moments = [look("A", source="recorded", ts_unix_ms=n, complete=False) for n in (10, 20, 30)]
    step = record.step(NEW, moments, at(5000), LIMITS)

    assert [one.ts_unix_ms for one in samples(step)] == [10, 20, 30]
    assert [one.interval_ms for one in samples(step)] == [0, 0, 0]


def test_the_interval_is_of_the_clock_that_runs():
    """BR-43: the wall clock set back 12 h: order and intervals stay, one event tells of it."""
    state, found = NEW, []
    for tick in range(10):
        wall_ms = 1_790_000_000_000 + 1000 * tick - (12 * 3_600_000 if tick >= 5 else 0)
        step = record.step(state, [look("A")], at(1000 * tick, wall_ms), LIMITS)
        state = step.state
        found.append((samples(step)[0].interval_ms, events(step)))

    assert [interval_ms for interval_ms, _ in found] == [0] + [1000] * 9
    assert [told for _, told in found] == [[]] * 5 + [["clock-stepped"]] + [[]] * 4


def test_a_drifting_clock_is_no_step():
    """NTP slews: 10 ms a tick for an hour is told nowhere."""
    state = NEW
    for tick in range(3600):
        step = record.step(state, [], at(1000 * tick, 1_790_000_000_000 + 1010 * tick), LIMITS)
        state = step.state
        assert events(step) == []


def test_the_cadence_in_force_is_in_the_sample():
    """1 s while in use, the idle rate after a calm minute."""
    state, now_ms, told = NEW, 0, []
    for _ in range(80):
        step = record.step(
            state, [look("A", utilization_percent=0.0, temperature_c=40)], at(now_ms), LIMITS
        )
        state = step.state
        told.append(samples(step)[0].cadence_ms)
        now_ms += told[-1]

    assert (told[0], told[-1]) == (1000, 4000)


def test_an_xid_is_one_event_over_a_restart():
    """BR-33: told by NVML, remembered, restarted, read again from the kernel's log: one event."""
    heard = reading.RawEvent(event="xid", gpu_uuid="A", xid=79)
    step = record.step(NEW, [look("A", events=(heard,))], at(10_000), LIMITS)
    told = events(step)
    kept = msgspec.json.decode(msgspec.json.encode(step.state.kept), type=record.Kept)
    state = record.State(
        pace=cadence.Pace(wait_ms=1000), kept=record.resume(kept, "boot-1", 500_000)
    )
    logged = reading.RawEvent(
        event="xid",
        pci_bus_id="00000000:00:00.0",
        xid=79,
        log=reading.LogPosition("boot-1", 7),
        ts_unix_ms=1_790_000_010_000,
    )
    for now_ms in (500_000, 501_000):
        step = record.step(state, [look("A", events=(logged,))], at(now_ms), LIMITS)
        state = step.state
        told += events(step)

    assert told == ["xid"]


def test_unsupported_fields_are_told_by_gpu():
    """For the birth record; a GPU that is lost does not change what it could tell."""
    step = record.step(NEW, [look("A", energy_mj=reading.UNSUPPORTED)], at(0), LIMITS)
    lost = record.Look(
        source="nvml",
        observations=(reading.Observation(gpus=(reading.RawGpu(uuid="A", state="lost"),)),),
    )

    assert step.unsupported == {"A": ("energy_mj",)}
    assert record.step(step.state, [lost], at(1000), LIMITS).unsupported == {}


LOOKS = st.builds(
    lambda uuids, percent, complete: look(*uuids, complete=complete, utilization_percent=percent),
    st.lists(st.sampled_from("ABCD"), unique=True, max_size=4),
    st.sampled_from([0, 50, reading.UNSUPPORTED, reading.Failed("x"), 1e9]),
    st.booleans(),
)


@given(st.lists(st.tuples(LOOKS, st.integers(1, 10**6), st.integers(0, 2 * 10**12)), max_size=30))
def test_any_history_can_be_remembered(ticks):
    """Whatever is observed, what must outlast the process is plain JSON and reads back equal;
    every record has a time, and no GPU stands twice in a sample.
    """
    state, now_ms = NEW, 0
    for one, dt_ms, wall_ms in ticks:
        now_ms += dt_ms
        step = record.step(state, [one], at(now_ms, wall_ms), LIMITS)
        state = step.state
        text = msgspec.json.encode(state.kept)
        assert msgspec.json.decode(text, type=record.Kept) == state.kept
        for sample in samples(step):
            uuids = [gpu.uuid for gpu in sample.gpus]
            assert len(uuids) == len(set(uuids))
