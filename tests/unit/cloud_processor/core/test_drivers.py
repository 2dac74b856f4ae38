"""The driver of a node: what is believed of it, and the label that comes of it."""

import datetime as dt

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import deserved, drivers, judge, model, policy, steer
from support import judging
from support.judging import Shell
from wire.sample import GpuInventory, Status

RULES = policy.Policy()
LABEL = "windvane.io/driver.compatibility"
NOON_MS = int(dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC).timestamp() * 1000)
END_MS = int(dt.datetime(2027, 4, 1, tzinfo=dt.UTC).timestamp() * 1000)  # of branch 595


def inventory(uuid="GPU-a", architecture="Hopper", *, vendor="nvidia", capability=None):
    return GpuInventory(
        uuid=uuid, vendor=vendor, architecture=architecture, compute_capability=capability
    )


def birth(*gpus, driver="595.91.07", ts_ms=NOON_MS):
    return Status(
        ts_unix_ms=ts_ms, state="birth", agent_version="0", driver_version=driver, gpus=gpus
    )


def word(known, now_ms=NOON_MS):
    said = drivers.judged(known, now_ms)
    return None if said is None else said.compatibility


def test_a_birth_with_nvidia_gpus_is_judged():
    """The word is the matrix's; versions and architectures stand beside it, each once."""
    known = drivers.born(None, birth(inventory("GPU-a"), inventory("GPU-b", capability="9.0")))
    said = drivers.judged(known, NOON_MS)

    assert (said.compatibility, said.version, said.architectures) == (
        "ok",
        "595.91.07",
        ("Hopper",),
    )
    assert word(drivers.born(None, birth(inventory(architecture="Volta")))) == "unsupported"
    assert word(drivers.born(None, birth(inventory(), driver="550.54.15"))) == "old"
    assert word(drivers.born(None, birth(inventory(), driver="580.00"))) == "unknown"


@pytest.mark.parametrize("vendor", ["amd", "intel", "simulated", "recorded"])
def test_a_node_without_nvidia_gpus_has_no_driver(vendor):
    """Not `unknown`: there is nothing to judge."""
    assert drivers.born(None, birth(inventory(vendor=vendor))) is None
    assert drivers.judged(None, NOON_MS) is None


def test_missing_data_changes_nothing():
    """BR-25: during an upgrade the agent tells no GPUs, no version, or no architecture."""
    known = drivers.born(None, birth(inventory(capability="9.0")))

    assert drivers.born(known, birth(driver=None)) == known
    assert drivers.born(known, birth(inventory(vendor="amd"), driver=None)) == known
    assert drivers.born(known, birth(inventory(architecture=None), driver=None)) == known
    assert drivers.born(known, birth(inventory(architecture="???"))) == known
    assert drivers.born(known, birth(inventory(architecture="Hopper", capability="7.0"))) == known


def test_a_new_birth_replaces_driver_and_gpus():
    """An upgraded driver, a GPU that was taken out."""
    known = drivers.born(None, birth(inventory("GPU-a", "Volta"), inventory("GPU-b")))
    after = drivers.born(known, birth(inventory("GPU-b"), driver="620.70.06"))

    assert (word(known), word(after)) == ("unsupported", "ok")


def test_an_architecture_that_the_matrix_lacks_is_named():
    """And is unknown; a GPU that tells nothing too."""
    new = drivers.born(None, birth(inventory(architecture="Rubin", capability="13.0")))
    mute = drivers.born(None, birth(inventory(architecture=None)))

    assert (word(new), word(mute)) == ("unknown", "unknown")
    assert "'Rubin'" in drivers.judged(new, NOON_MS).reasons[0]
    assert drivers.judged(mute, NOON_MS).architectures == (None,)


@given(st.none() | st.text(), st.lists(st.none() | st.text(), min_size=1, max_size=5))
def test_garbage_is_never_ok(version, architectures):
    """Whatever a birth says, it is judged, and what is said fits the contract."""
    gpus = [inventory(f"GPU-{n}", told) for n, told in enumerate(architectures)]
    said = drivers.judged(drivers.born(None, birth(*gpus, driver=version)), NOON_MS)

    assert said.compatibility != "ok"
    assert msgspec.convert(msgspec.to_builtins(said), type(said)) == said


def born_shell(*gpus, now_ms=NOON_MS, **told):
    shell = Shell(now_ms=now_ms)
    shell.send(birth(*(gpus or (inventory(),)), ts_ms=now_ms, **told), lane="status")
    shell.run(5)
    return shell


def test_the_verdict_carries_it_and_heartbeats_do_not_change_it():
    """One word for the life of a birth: no news in a quiet minute, from state read back."""
    shell = born_shell()
    shell.run(60)
    count, revision = len(shell.verdicts), shell.verdict.revision
    shell.run(60)

    assert shell.verdict.driver.compatibility == "ok"
    assert (len(shell.verdicts), shell.verdict.revision) == (count, revision)
    assert {one.driver.compatibility for one in shell.heartbeats} == {"ok"}


def test_the_driver_stands_through_silence_and_death():
    """A label is never changed because data is missing."""
    shell = born_shell(driver="550.54.15")
    shell.wait(120_000)
    assert (shell.verdict.telemetry, shell.verdict.driver.compatibility) == ("lost", "old")

    shell.send(judging.status(shell.now_ms, state="death"), lane="status")
    shell.send(judging.status(shell.now_ms), lane="status")
    assert shell.verdict.driver.compatibility == "old"


def test_a_day_that_ends_a_branch_is_news_once():
    """The judgement follows the day of the step, not the birth's, also for a silent node."""
    shell = born_shell(now_ms=END_MS - 60_000)
    assert shell.verdict.driver.compatibility == "ok"

    shell.run(60)
    before = len(shell.verdicts)
    shell.wait(30_000)
    words = [one.driver.compatibility for one in shell.verdicts]

    assert words.index("old") < before
    assert (words.count("ok"), set(words[words.index("old") :])) == (words.index("old"), {"old"})
    assert shell.verdict.driver.reasons == ("branch 595 (production) was maintained until 2027-03",)


def test_a_state_of_before_reads_back_without_a_driver():
    """Tables that were written by an earlier program say nothing of the driver."""
    old = msgspec.to_builtins(judge.fresh("demo", "edge-01"))
    del old["driver"]

    assert msgspec.convert(old, model.NodeState).driver is None


def steered(shell):
    """The wishes of a pool that hears all that this shell has said, in its order."""
    pool, wishes = steer.fresh_pool("demo", "default"), []
    for said in sorted([*shell.verdicts, *shell.heartbeats], key=lambda one: one.ts_unix_ms):
        pool, more = steer.on_verdict(pool, said, policy=RULES, now_ms=said.ts_unix_ms)
        wishes += more
    return pool, wishes


def test_the_label_is_wished_once_and_again_after_a_restart():
    """No wish per heartbeat; the pool's successor wishes the same from its table."""
    shell = born_shell(driver="550.54.15")
    shell.run(30)
    pool, wishes = steered(shell)
    told = [wish.labels.get(LABEL) for wish in wishes]
    calm = len(wishes)

    shell.run(60)
    pool, wishes = steered(shell)
    assert len(wishes) == calm
    assert set(told) == {"old"}

    again = steer.restored(msgspec.convert(msgspec.to_builtins(pool), model.PoolState))
    _, (wish,) = steer.on_tick(again, policy=RULES, now_ms=shell.now_ms)
    assert (wish.labels[LABEL], wish.unsaid) == ("old", ())


def test_a_state_that_was_lost_leaves_the_label_alone():
    """Samples that come before the birth say nothing of the driver: `unsaid`, not removed."""
    shell = Shell(now_ms=NOON_MS)
    shell.run(10)
    _, wishes = steered(shell)

    assert shell.verdict.driver is None
    assert {wish.unsaid for wish in wishes} == {(LABEL,)}
    assert not any(LABEL in wish.labels for wish in wishes)
    assert LABEL not in deserved.labels(shell.verdict, "windvane.io")
