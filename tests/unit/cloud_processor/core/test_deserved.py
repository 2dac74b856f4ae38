"""What a node deserves by its verdict alone."""

import pytest

from cloud_processor.core import deserved, policy
from cloud_processor.core.model import Member
from support import steering
from wire.verdict import DriverVerdict, Taint

RULES = policy.Policy()
NOW_MS = 1_000_000
SATURATED = Taint(key="windvane.io/gpu-saturated", value="saturated", effect="PreferNoSchedule")


def member(verdict, **changes):
    return Member(verdict=verdict, first_ms=NOW_MS, seen_ms=NOW_MS, **changes)


def taints(verdict, rules=RULES, **changes):
    return deserved.taints(member(verdict, **changes), rules, NOW_MS)


def test_every_label_is_written_each_time_also_unknown_ones():
    """A label is never removed because data is missing."""
    said = steering.verdict(load="unknown", memory_free="16Gi")

    assert deserved.labels(said, "windvane.io") == {
        "windvane.io/gpu.load": "unknown",
        "windvane.io/gpu.health": "ok",
        "windvane.io/gpu.thermal": "ok",
        "windvane.io/gpu.power": "ok",
        "windvane.io/gpu.telemetry": "fresh",
        "windvane.io/gpu.memory-free": "16Gi",
    }


def test_the_driver_has_a_label_once_the_node_has_told_of_one():
    """Until then the label is `unsaid`: neither written nor taken away."""
    key = "windvane.io/driver.compatibility"
    told = DriverVerdict(
        compatibility="unsupported", reasons=(), version=None, cuda_version=None, architectures=()
    )
    known = steering.verdict(driver=told)

    assert deserved.labels(known, "windvane.io")[key] == "unsupported"
    assert deserved.unsaid(known, "windvane.io") == ()
    assert key not in deserved.labels(steering.verdict(), "windvane.io")
    assert deserved.unsaid(steering.verdict(), "windvane.io") == (key,)


def test_a_failed_node_is_kept_out_with_its_reason():
    """The first reason, as a valid value, is the value of the taint."""
    failed = steering.verdict(health="failed", reasons=("xid-79", "gpu-lost"))

    assert taints(failed) == (steering.FAILED,)
    assert taints(steering.verdict(health="failed"))[0].value == "failed"
    assert (
        taints(steering.verdict(health="failed", reasons=("needs (a b)",)))[0].value == "needs-a-b"
    )


def test_no_execute_only_when_the_policy_asks_for_it():
    """Evicting running pods is a person's decision."""
    rules = policy.parse({"health": {"failed_effect": "NoExecute"}})
    (taint,) = taints(steering.verdict(health="failed"), rules)

    assert taint.effect == "NoExecute"
    assert deserved.is_hard(taint)


@pytest.mark.parametrize("load", ["idle", "low", "medium", "high", "unknown"])
def test_only_saturation_is_a_load_that_taints(load):
    """And it only asks."""
    assert taints(steering.verdict(load=load)) == ()
    assert taints(steering.verdict(load="saturated")) == (SATURATED,)
    assert not deserved.is_hard(SATURATED)


@pytest.mark.parametrize("telemetry", ["stale", "lost"])
def test_silence_taints_softly_and_only_after_the_grace(telemetry):
    """The first of many to fall silent must not be tainted before the rest is seen silent."""
    silent = steering.verdict(telemetry=telemetry, load="unknown")
    grace_ms = RULES.silence.grace_ms

    assert taints(silent, silent_since_ms=NOW_MS - grace_ms + 1) == ()
    (taint,) = taints(silent, silent_since_ms=NOW_MS - grace_ms)
    assert ("windvane.io/gpu-silent", telemetry, "PreferNoSchedule") == (
        taint.key,
        taint.value,
        taint.effect,
    )


def test_a_busy_node_does_not_look_free_around_a_silence():
    """Its soft taint stands through the grace before and after; then what is known counts."""
    silent = steering.verdict(telemetry="stale", load="unknown")
    back = steering.verdict(load="unknown")
    known = steering.verdict(load="low")
    grace_ms = RULES.silence.grace_ms
    granted = {"granted": (SATURATED,)}

    assert taints(silent, silent_since_ms=NOW_MS - 1, **granted) == (SATURATED,)
    assert taints(back, back_ms=NOW_MS - 1, **granted) == (SATURATED,)
    assert taints(back, back_ms=NOW_MS - grace_ms, **granted) == ()
    assert taints(known, back_ms=NOW_MS - 1, **granted) == ()
    assert taints(back, **granted) == ()
