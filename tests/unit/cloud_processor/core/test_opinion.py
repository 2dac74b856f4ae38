"""What a node looks like."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import opinion, policy
from cloud_processor.core.model import View
from support import judging
from support.judging import Shell, gpu

NODE_OF_EIGHT = [f"GPU-{n}" for n in range(8)]


def changes(shell, word):
    values = [getattr(v, word) for v in shell.verdicts]
    return [v for v, before in zip(values, [None, *values], strict=False) if v != before]


def test_a_node_that_goes_from_idle_to_full_is_saturated_within_twenty_seconds():
    """The defaults are quick enough for a person who watches."""
    shell = Shell()
    shell.run(60, percent=1.0)
    assert shell.verdict.load == "idle"

    shell.run(19, percent=99.0)

    assert shell.verdict.load == "saturated"


def test_a_load_around_a_border_changes_the_verdict_once_at_most():
    """BR-112: 79 and 81 in turn, each for 10 s, for 10 min, with the border at 80."""
    rules = policy.parse(
        {"load": {"enter_percent": [5, 30, 60, 80], "leave_percent": [3, 25, 50, 70]}}
    )
    shell = Shell(rules)
    shell.run(60, percent=79.0)
    before = len(changes(shell, "load"))

    for _ in range(30):
        shell.run(10, percent=79.0)
        shell.run(10, percent=81.0)

    assert len(changes(shell, "load")) - before <= 1
    assert len(shell.verdicts) <= before + 4


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60))
def test_load_changes_are_a_hold_apart(percents):
    """BR-112: whatever the load, at most one change per hold time (after the first word)."""
    shell = Shell()
    for percent in percents:
        shell.run(1, percent=float(percent))

    times = [
        v.ts_unix_ms
        for v, before in zip(shell.verdicts[1:], shell.verdicts, strict=False)
        if v.load != before.load
    ]
    hold_ms = shell.policy.load.hold_ms
    assert all(b - a >= hold_ms for a, b in itertools.pairwise(times))


def test_one_free_gpu_of_eight_keeps_a_node_from_being_saturated():
    """The mean over the GPUs is judged: seven full ones and a free one are 87 %."""
    shell = Shell()
    busy = [gpu(uuid, 100.0) for uuid in NODE_OF_EIGHT[:7]]
    shell.run(40, *busy, gpu(NODE_OF_EIGHT[7], 0.0))
    assert shell.verdict.load == "high"

    shell.run(40, *busy, gpu(NODE_OF_EIGHT[7], 100.0))
    assert shell.verdict.load == "saturated"


def test_a_mig_parent_is_never_idle():
    """BR-03: no utilisation is not 0 %."""
    mig = gpu(percent=None, mig_enabled=True)
    shell = Shell()
    shell.run(30, mig)
    assert shell.verdict.load == "unknown"

    shell.run(30, mig, gpu("GPU-b", 0.0))
    assert shell.verdict.load == "unknown"

    shell.run(30, mig, gpu("GPU-b", 99.0))
    assert shell.verdict.load == "saturated"


def test_a_failed_gpu_counts_neither_as_busy_nor_as_free():
    """Two full GPUs and a lost one are a saturated node."""
    shell = Shell()
    lost = gpu("GPU-c", percent=None, state="lost")
    shell.run(40, gpu("GPU-a", 99.0), gpu("GPU-b", 99.0), lost)

    assert (shell.verdict.load, shell.verdict.health) == ("saturated", "degraded")


def test_unified_memory_is_unknown_and_mixed_memory_is_the_largest():
    """BR-05, BR-109: no figures are no bucket; order and models of the GPUs do not matter."""
    shell = Shell()
    shell.run(10, gpu(memory_free_bytes=None))
    assert shell.verdict.memory_free == "unknown"

    small, large = gpu("A", memory_free_bytes=9 * 2**30), gpu("B", memory_free_bytes=30 * 2**30)
    for order in ((small, large), (large, small)):
        shell = Shell()
        shell.run(10, *order)
        assert shell.verdict.memory_free == "16Gi"
        assert [g.uuid for g in shell.verdict.gpus] == ["A", "B"]


@pytest.mark.parametrize(
    ("change", "thermal", "power"),
    [
        ({}, "ok", "ok"),
        ({"temperature_c": 86.0}, "hot", "ok"),
        ({"temperature_margin_c": 4.0, "temperature_slowdown_c": None}, "hot", "ok"),
        ({"temperature_margin_c": 40.0, "temperature_slowdown_c": None}, "ok", "ok"),
        ({"throttle_reasons": ("sw-thermal-slowdown",)}, "throttled", "ok"),
        ({"throttle_reasons": ("sw-power-cap",)}, "ok", "capped"),
        ({"throttle_reasons": None}, "ok", "unknown"),
        ({"throttle_reasons": None, "temperature_slowdown_c": None}, "unknown", "unknown"),
        ({"temperature_c": None}, "ok", "ok"),
        ({"power_mw": None}, "ok", "ok"),
    ],
)
def test_heat_and_power(change, thermal, power):
    """The device's own reasons and its margin decide; a power value decides nothing (BR-12)."""
    shell = Shell()
    shell.run(12, gpu(**change))

    assert (thermal, power) == (shell.verdict.thermal, shell.verdict.power)


def test_the_hottest_gpu_speaks_for_the_node():
    """One hot GPU among cool ones makes the node hot, whatever their order."""
    shell = Shell()
    shell.run(12, gpu("A"), gpu("B", temperature_c=89.0), gpu("C"))

    assert shell.verdict.thermal == "hot"


def test_identity_is_the_uuid():
    """BR-17: after a reboot A is gone and B is first; B goes on as B, A is missing."""
    shell = Shell()
    shell.run(20, gpu("A", 99.0), gpu("B", 10.0))
    shell.run(3, gpu("B", 10.0))

    told = {g.uuid: g for g in shell.verdict.gpus}
    assert (told["A"].health, told["A"].reasons) == ("unknown", ("gpu-missing",))
    assert (told["B"].utilization_percent, told["B"].health) == (10.0, "ok")
    assert shell.verdict.health == "unknown"


def test_a_gpu_that_a_birth_no_longer_lists_is_forgotten():
    """BR-17: taken out on purpose, it does not make the node unknown for ever."""
    shell = Shell()
    shell.run(5, gpu("A"), gpu("B"))
    shell.send(judging.status(shell.now_ms, gpus=(judging.inventory("B"),)), lane="status")
    shell.run(1, gpu("B"))

    assert [g.uuid for g in shell.verdict.gpus] == ["B"]
    assert shell.verdict.health == "ok"


def test_a_failed_gpu_that_is_not_listed_any_more_is_a_fault_until_the_dwell_is_over():
    """A restart of the agent does not wipe out a GPU that fell off the bus."""
    shell = Shell(policy.parse({"health": {"dwell_ms": 30_000}}))
    shell.run(5, gpu("A"), gpu("B"))
    shell.happen(uuid="A", xid=79)
    shell.send(judging.status(shell.now_ms, gpus=(judging.inventory("B"),)), lane="status")
    shell.run(28, gpu("B"))
    assert shell.verdict.health == "failed"

    shell.run(4, gpu("B"))
    assert shell.verdict.health == "ok"


def test_a_birth_that_lists_nothing_says_nothing():
    """The source was not ready when the agent was born."""
    shell = Shell()
    shell.run(5, gpu("A"), gpu("B"))
    shell.send(judging.status(shell.now_ms), lane="status")
    shell.run(2, gpu("B"))

    assert [g.uuid for g in shell.verdict.gpus] == ["A", "B"]


def test_a_gpu_that_does_not_answer_is_unknown_until_it_does():
    """A call that hung says nothing good and nothing bad."""
    shell = Shell()
    shell.run(3)
    shell.run(1, gpu(percent=None, state="unreachable"))
    assert (shell.verdict.health, shell.verdict.reasons) == ("unknown", ("gpu-unreachable",))

    shell.run(1)
    assert (shell.verdict.health, shell.verdict.reasons) == ("ok", ())


def test_samples_are_ordered_by_seq_and_epochs_by_their_appearance():
    """An epoch that was the newest once never comes back as the newest."""
    rules = policy.Policy()
    view = opinion.see(View(), "a", judging.sample(5, 1000), rules, 1000)
    assert not opinion.is_newer(view, "a", 5)
    assert opinion.is_newer(view, "a", 6)
    assert opinion.is_newer(view, "b", 1)

    view = opinion.see(view, "b", judging.sample(1, 2000), rules, 2000)
    assert not opinion.is_newer(view, "a", 6)


def test_readings_are_bounded_and_a_clock_set_back_clears_them():
    """However fast the ticks, a GPU keeps a bounded number of readings."""
    rules = policy.parse({"load": {"window_ms": 3_600_000}})
    view = View()
    for seq in range(1, opinion.RECENT_MAX + 20):
        view = opinion.see(view, "a", judging.sample(seq, 1_000_000 + seq), rules, seq)
    assert len(view.gpus["GPU-a"].recent) == opinion.RECENT_MAX

    view = opinion.see(view, "a", judging.sample(seq + 1, 5), rules, seq + 1)
    assert view.gpus["GPU-a"].recent == ((5, 50.0),)


@pytest.mark.parametrize(
    ("bad", "of", "word"),
    [(1, 1, "failed"), (1, 2, "failed"), (1, 8, "degraded"), (4, 8, "failed")],
)
def test_a_node_has_failed_when_enough_of_its_gpus_have(bad, of, word):
    """One bad GPU of eight degrades the node; from half of them on it has failed."""
    shell = Shell()
    gpus = [gpu(uuid) for uuid in NODE_OF_EIGHT[:of]]
    shell.run(2, *gpus)
    for uuid in NODE_OF_EIGHT[:bad]:
        shell.happen(uuid=uuid, xid=79)

    assert word == shell.verdict.health
    assert shell.verdict.reasons == ("xid-79",)


def test_the_gravest_reason_comes_first():
    """It becomes the value of the taint."""
    shell = Shell()
    shell.run(2, gpu("A"), gpu("B"))
    shell.happen(uuid="A", xid=63)
    shell.happen(uuid="B", xid=79)

    assert shell.verdict.reasons == ("xid-79", "xid-63")


def test_an_event_of_no_gpu_is_that_of_the_only_one():
    """With several GPUs it accuses nobody, and is noted."""
    alone, among = Shell(), Shell()
    alone.run(2)
    among.run(2, gpu("A"), gpu("B"))
    for shell in (alone, among):
        shell.happen(uuid=None, xid=79)

    assert alone.verdict.health == "failed"
    assert among.verdict.health == "ok"
    assert "event-noted" in among.names()
