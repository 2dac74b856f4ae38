"""Health of one GPU: accused at once, forgiven by evidence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import health, policy
from cloud_processor.core.model import GpuHealth
from support import judging

RULES = policy.Policy()
FEW = policy.parse({"health": {"dwell_ms": 10_000, "dwell_max_ms": 35_000, "sound_samples": 3}})


UNKNOWN = GpuHealth()


def xid(code, state=UNKNOWN, rules=FEW, now_ms=0):
    return health.after_event(state, judging.event(1, 0, xid=code), rules, now_ms)


def sound(state, times, now_ms, step_ms=1000):
    for n in range(times):
        state = health.after_sample(state, judging.gpu(), FEW.health, now_ms + n * step_ms)
    return state


def test_application_faults_accuse_nobody_and_hardware_faults_do():
    """BR-30: 13, 31, 43 and 45 change nothing; 79 fails the GPU; 999 follows the default."""
    for code in (13, 31, 43, 45):
        assert GpuHealth() == xid(code)

    assert (xid(79).health, xid(79).reasons) == ("failed", ("xid-79",))
    assert xid(999).health == "degraded"
    assert xid(63).health == "degraded"


def test_an_application_fault_that_repeats_changes_nothing_either():
    """BR-29: XID 31 twice, then nothing: the GPU was and is well, no restart needed."""
    well = sound(GpuHealth(), 1, 0)

    again = xid(31, xid(31, well, now_ms=10_000), now_ms=70_000)

    assert well == again


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"state": "lost"}, ("gpu-lost",)),
        ({"recovery_action": "gpu-reset"}, ("needs-gpu-reset",)),
        ({"state": "lost", "recovery_action": "node-reboot"}, ("gpu-lost", "needs-node-reboot")),
    ],
)
def test_what_a_sample_shows_accuses(changes, reasons):
    """BR-21: the state of the GPU itself is evidence enough."""
    found = health.after_sample(GpuHealth(), judging.gpu(**changes), RULES.health, 5)

    assert ("failed", reasons, 5) == (found.health, found.reasons, found.since_ms)


def test_lost_by_event_and_other_events():
    """A lost GPU is one whichever record tells it first; other events accuse nobody."""
    lost = health.after_event(GpuHealth(), judging.event(1, 0, "gpu-lost"), FEW, 0)
    other = health.after_event(GpuHealth(), judging.event(1, 0, "throttle-start"), FEW, 0)

    assert (lost.health, lost.reasons) == ("failed", ("gpu-lost",))
    assert GpuHealth() == other
    assert GpuHealth() == health.after_event(GpuHealth(), judging.event(1, 0, "xid"), FEW, 0)


@pytest.mark.parametrize("state", ["suspended", "unreachable"])
def test_a_gpu_that_does_not_answer_gives_no_evidence(state):
    """Missing data never improves a verdict."""
    failed = xid(79)

    for before in (GpuHealth(), failed):
        found = health.after_sample(before, judging.gpu(state=state), FEW.health, 10**9)
        assert before == found


def test_a_gpu_whose_calls_hang_is_degraded_and_comes_back_by_evidence():
    """BR-23: unresponsive is told at once, is no failure, and ends after sound samples."""
    hung = judging.gpu(state="unresponsive")
    bad = health.after_sample(GpuHealth("ok"), hung, FEW.health, 0)
    assert (bad.health, bad.reasons) == ("degraded", ("gpu-unresponsive",))

    lost = health.after_sample(bad, judging.gpu(state="lost"), FEW.health, 1)
    assert lost.health == "failed"
    assert sound(bad, 3, 50_000).health == "ok"


def test_recovery_needs_sound_readings_and_the_dwell():
    """Neither enough readings before the dwell nor one reading after it will do."""
    failed = xid(79, now_ms=0)

    early = sound(failed, 9, 1000)
    assert early.health == "failed"
    assert sound(early, 1, 10_000).health == "ok"
    assert sound(failed, 2, 50_000).health == "failed"
    well = sound(failed, 3, 50_000)
    assert (well.health, well.reasons) == ("ok", ())


def test_new_evidence_starts_the_dwell_again():
    """A GPU that still shows its fault is not on its way back."""
    failed = sound(xid(79), 5, 0)
    needs = judging.gpu(recovery_action="gpu-reset")

    again = health.after_sample(failed, needs, FEW.health, 9_000)

    assert again.reasons == ("xid-79", "needs-gpu-reset")
    assert sound(again, 9, 10_000).health == "failed"
    assert sound(again, 11, 10_000).health == "ok"


def test_a_grave_fault_stands_over_a_lesser_one():
    """A degraded GPU may fail, a failed one does not become better by a lesser fault."""
    assert xid(79, xid(63)).health == "failed"
    assert xid(63, xid(79)).health == "failed"


def test_each_relapse_doubles_the_dwell_up_to_its_maximum():
    """A GPU that comes and goes is believed later each time."""
    state, dwells, now_ms = GpuHealth(), [], 0
    for _ in range(4):
        state = xid(79, state, now_ms=now_ms)
        dwells.append(health.dwell_ms(state, FEW.health))
        state = sound(state, 3, now_ms + 40_000)
        now_ms += 60_000

    assert dwells == [10_000, 20_000, 35_000, 35_000]


def test_a_relapse_after_a_long_time_is_none():
    """What was a day ago is forgotten."""
    state = sound(xid(79), 3, 40_000)

    again = xid(79, state, now_ms=40_000 + 3_000 + FEW.health.relapse_memory_ms)

    assert again.relapses == 0


@given(st.lists(st.sampled_from([13, 31, 63, 79, 95, "ok", "reset", "gone", "wait"]), max_size=40))
def test_a_failed_gpu_is_never_well_within_its_dwell(story):
    """Whatever happens, from evidence to recovery there is at least the dwell."""
    state, now_ms, evidence_ms = GpuHealth(), 0, None
    for event in story:
        now_ms += 20_000 if event == "wait" else 1000
        match event:
            case int():
                after = xid(event, state, now_ms=now_ms)
                if event in {63, 79, 95}:
                    evidence_ms = now_ms
            case "ok":
                after = sound(state, 1, now_ms)
            case "reset":
                gpu = judging.gpu(recovery_action="gpu-reset")
                after = health.after_sample(state, gpu, FEW.health, now_ms)
                evidence_ms = now_ms
            case "gone":
                gpu = judging.gpu(state="unreachable")
                after = health.after_sample(state, gpu, FEW.health, now_ms)
            case _:
                after = state
        if state.health in {"failed", "degraded"} and after.health == "ok":
            assert event == "ok"
            assert now_ms - evidence_ms >= FEW.health.dwell_ms
        state = after


def test_reasons_are_words_for_a_person():
    """What stands in a wish is read by whoever is on call."""
    assert health.describe("xid-79") == "XID 79 (GPU lost from the PCIe bus; reboot)"
    assert health.describe("xid-13") == "XID 13"
    assert health.describe("needs-gpu-reset") == "needs gpu reset"
