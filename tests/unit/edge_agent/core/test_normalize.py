"""What a source says against what the contract allows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import normalize, reading
from wire import codec, sample


def gpu(**readings) -> reading.RawGpu:
    return reading.RawGpu(uuid="GPU-1", readings=readings)


ANYTHING = st.one_of(
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.none(),
    st.booleans(),
    st.just(reading.UNSUPPORTED),
    st.builds(reading.Failed, st.text(max_size=5)),
    st.lists(st.text(max_size=3), max_size=3).map(tuple),
    st.lists(st.integers(-1, 2**64), max_size=3).map(tuple),
    st.dictionaries(st.text(max_size=3), st.integers(-1, 2**64), max_size=3),
)


@given(
    st.dictionaries(st.sampled_from(reading.READABLE_FIELDS), ANYTHING),
    st.lists(
        st.builds(reading.RawProcess, pid=st.integers(-1, 2**40), memory_used_bytes=ANYTHING),
        max_size=3,
    ),
    st.lists(
        st.builds(
            reading.RawMig, uuid=st.text(max_size=200), profile=ANYTHING, memory_used_bytes=ANYTHING
        ),
        max_size=3,
    ),
    st.text(min_size=1, max_size=200),
)
def test_whatever_is_read_the_contract_takes_it(readings, processes, mig, uuid):
    """BR-84: any reading gives a GPU that encodes and decodes by the strict contract."""
    raw = reading.RawGpu(uuid=uuid, readings=readings, processes=tuple(processes), mig=tuple(mig))
    found = normalize.normalize(raw)
    record = sample.Sample(seq=1, ts_unix_ms=0, interval_ms=0, gpus=(found.gpu,))

    assert codec.decode_record(codec.encode(record)) == record


def test_nan_and_infinity_are_kept_out():
    """BR-84: NaN and infinity become None and are counted; 50 stays."""
    found = normalize.normalize(
        gpu(utilization_percent=math.nan, power_mw=math.inf, temperature_c=50)
    )

    assert found.gpu == sample.Gpu(uuid="GPU-1", temperature_c=50.0)
    assert found.invalid_count == 2


@pytest.mark.parametrize("power_mw", [2**32 - 1, 2**64 - 1, 10_000_001, 1_200_001, -1], ids=str)
def test_power_that_cannot_be_is_none(power_mw):
    """BR-12: sentinels, more than 10 kW, more than four times the limit: None and counted."""
    found = normalize.normalize(gpu(power_mw=power_mw, power_limit_mw=300_000))

    assert found.gpu.power_mw is None
    assert found.invalid_count == 1


def test_sound_power_stays():
    """BR-12: the neighbours of a bad value are kept as they are."""
    found = normalize.normalize(gpu(power_mw=52_000, power_limit_mw=300_000))

    assert found.gpu.power_mw == 52_000
    assert found.invalid_count == 0


def test_zero_is_a_value_and_nothing_is_not_zero():
    """BR-13: zero energy is zero; energy that is not supported is None and listed."""
    told = normalize.normalize(gpu(energy_mj=0))
    untold = normalize.normalize(gpu(energy_mj=reading.UNSUPPORTED))

    assert told.gpu.energy_mj == 0
    assert untold.gpu.energy_mj is None
    assert untold.unsupported == ("energy_mj",)
    assert untold.invalid_count == 0


def test_a_failed_reading_carries_its_reason():
    """None with the reason in `errors`; not counted as invalid."""
    found = normalize.normalize(gpu(temperature_c=reading.Failed("Timeout")))

    assert found.gpu.temperature_c is None
    assert found.gpu.errors == {"temperature_c": "Timeout"}
    assert found.invalid_count == 0


@pytest.mark.parametrize("value", [-0.1, 100.5, 37_000], ids=str)
def test_percent_is_never_clamped(value):
    """BR-09: 37 000 % is not 100 %: it is no value."""
    found = normalize.normalize(gpu(utilization_percent=value))

    assert found.gpu.utilization_percent is None
    assert found.invalid_count == 1


def test_an_impossible_process_is_dropped_and_the_good_one_kept():
    """BR-08: a pid that is a byte count is no pid."""
    found = normalize.normalize(
        reading.RawGpu(
            uuid="GPU-1",
            processes=(
                reading.RawProcess(pid=4242, memory_used_bytes=2**30, name="train"),
                reading.RawProcess(pid=3_221_225_472, memory_used_bytes=4243),
                reading.RawProcess(pid=7, memory_used_bytes=2**64 - 1, pod_uid="u"),
            ),
        )
    )

    assert [process.pid for process in found.gpu.processes] == [4242, 7]
    assert found.gpu.processes[1].memory_used_bytes is None
    assert found.invalid_count == 2


def test_unknown_words_are_no_value():
    """A recovery action or a flag that the contract does not know is counted, not passed on."""
    found = normalize.normalize(gpu(recovery_action="pray", mig_enabled=1, throttle_reasons=7))

    assert found.gpu == sample.Gpu(uuid="GPU-1")
    assert found.invalid_count == 3


def test_names_that_are_no_fields_are_ignored():
    """A source may say more than the contract has."""
    assert normalize.normalize(gpu(horsepower=30, power_mw=None)).gpu == sample.Gpu(uuid="GPU-1")


def test_more_memory_than_there_is_is_no_reading():
    """Used, free and reserved memory and BAR1 are held against their totals, each alone."""
    found = normalize.normalize(
        gpu(
            memory_total_bytes=100,
            memory_used_bytes=101,
            memory_free_bytes=100,
            bar1_total_bytes=10,
            bar1_used_bytes=11,
        )
    )

    assert found.gpu == sample.Gpu(
        uuid="GPU-1", memory_total_bytes=100, memory_free_bytes=100, bar1_total_bytes=10
    )
    assert found.invalid_count == 2


def test_unified_memory_is_no_memory_figure():
    """BR-05: both memory calls unsupported: listed, null, marked unified; a total of 0 is none."""
    names = ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes")
    found = normalize.normalize(
        gpu(memory_method="unified", **dict.fromkeys(names, reading.UNSUPPORTED))
    )

    assert found.gpu == sample.Gpu(uuid="GPU-1", memory_method="unified")
    assert found.unsupported == names
    assert normalize.normalize(gpu(memory_total_bytes=0)).gpu.memory_total_bytes is None


def test_what_the_source_counted_as_junk_is_counted_on():
    """BR-09: records that a source left out are in the sample's count of impossible values."""
    assert normalize.normalize(reading.RawGpu(uuid="GPU-1", invalid_count=98)).invalid_count == 98


def test_too_many_processes_are_counted():
    """A process list is bounded; what is left out is said, not lost in silence."""
    processes = tuple(reading.RawProcess(pid=pid) for pid in range(1, 301))
    found = normalize.normalize(reading.RawGpu(uuid="GPU-1", processes=processes))

    assert len(found.gpu.processes) == normalize.PROCESSES_MAX
    assert found.gpu.processes_omitted_count == 300 - normalize.PROCESSES_MAX
