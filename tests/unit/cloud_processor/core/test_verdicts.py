"""What is said of a node, and when."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import judge
from support import judging
from support.judging import Shell, gpu

LOADS = ["idle", "low", "medium", "high", "saturated"]


def test_a_node_that_was_never_heard_has_no_verdict():
    """The past and a death tell nothing of now."""
    shell = Shell()
    shell.send(judging.sample(1, shell.now_ms - 3_600_000), lane="backlog")
    shell.send(judging.status(shell.now_ms, "death"), lane="status")
    shell.wait(60_000)

    assert shell.verdict is None
    assert judge.next_due_ms(shell.state, shell.policy) == judge.NEVER_MS


def test_a_birth_is_heard():
    """An agent without a GPU is seen, and nothing is known of its node."""
    shell = Shell()
    shell.send(judging.status(shell.now_ms), lane="status")

    said = shell.verdict
    assert (said.telemetry, said.load, said.health) == ("fresh", "unknown", "unknown")
    assert said.intake is None
    assert said.cause.kind == "status"


def test_what_is_here_is_told_also_when_nothing_fresh_has_come():
    """A node that is heard again after hours sends its past first: the ledger shows it."""
    shell = Shell()
    shell.send(judging.status(shell.now_ms), lane="status")
    past_ms = shell.now_ms - 3_600_000
    shell.send(*[judging.sample(seq, past_ms + seq) for seq in (1, 2, 4)], lane="backlog")
    shell.wait(11_000)

    told = shell.verdict.intake
    assert (told.received, told.missing, told.highest_seq) == (3, 1, 4)


def test_numbers_alone_are_no_news():
    """The revision counts words; numbers come with the heartbeat."""
    shell = Shell()
    shell.run(30)
    revision, said = shell.verdict.revision, len(shell.verdicts)

    for percent in range(40, 60):
        shell.run(1, percent=float(percent))

    assert (revision, said) == (shell.verdict.revision, len(shell.verdicts))
    assert len(shell.heartbeats) >= 2
    assert len({v.gpus[0].utilization_percent for v in shell.heartbeats}) >= 3
    assert shell.heartbeats[-1].intake.received > 40


def test_heartbeats_come_in_time_and_repeat_the_cause():
    """The silence of a judge means that it is gone, so it is never silent for long."""
    shell = Shell()
    shell.run(60)

    times = [
        v.ts_unix_ms
        for v in sorted([*shell.verdicts, *shell.heartbeats], key=lambda v: v.ts_unix_ms)
    ]
    assert max(b - a for a, b in itertools.pairwise(times)) <= 11_000
    assert shell.verdicts[-1].cause == shell.heartbeats[-1].cause


def test_each_change_has_its_own_revision_and_a_time_that_does_not_run_back():
    """A consumer may order by either."""
    shell = Shell()
    shell.run(20, percent=99.0)
    shell.happen(xid=79)
    shell.wait(70_000)

    revisions = [v.revision for v in shell.verdicts]
    assert list(range(1, len(revisions) + 1)) == revisions
    times = [v.ts_unix_ms for v in shell.verdicts]
    assert sorted(times) == times


def test_silence_after_load_keeps_neither_busy_nor_idle():
    """BR-111: last 98 % or last 2 %, after the expiry the load is unknown."""
    for percent in (98.0, 2.0):
        shell = Shell()
        shell.run(60, percent=percent)
        shell.wait(600_000)

        said = shell.verdict
        assert (said.load, said.telemetry, said.health) == ("unknown", "lost", "unknown")
        assert (said.thermal, said.power, said.memory_free) == ("unknown", "unknown", "unknown")
        assert said.reasons == ("silent",)
        assert said.cause.kind == "silence"


def test_a_silent_node_is_found_within_ten_seconds():
    """BR-88: by the wall clock, with no other traffic; first stale, then lost."""
    shell = Shell()
    shell.run(30)
    last_ms = shell.now_ms
    shell.wait(120_000)

    found = {v.telemetry: v.ts_unix_ms - last_ms for v in shell.verdicts if v.ts_unix_ms > last_ms}
    assert found["stale"] <= 10_000
    assert found["lost"] <= 61_000
    assert next(v for v in shell.verdicts if v.telemetry == "stale").health == "ok"


def test_silence_never_improves_a_fault():
    """A failed node that falls silent is a failed node."""
    shell = Shell()
    shell.run(5)
    shell.happen(xid=79)
    shell.wait(600_000)

    assert (shell.verdict.health, shell.verdict.telemetry) == ("failed", "lost")
    assert shell.verdict.reasons == ("xid-79", "silent")


def test_a_death_is_believed_at_once_and_disproved_by_a_live_sample():
    """The broker tells it; a node that goes on sending is not dead."""
    shell = Shell()
    shell.run(5)
    shell.send(judging.status(shell.now_ms, "death", reason="connection lost"), lane="status")
    assert (shell.verdict.telemetry, shell.verdict.reasons) == ("stale", ("agent-gone",))
    assert shell.verdict.cause.kind == "status"

    shell.run(1)
    assert (shell.verdict.telemetry, shell.verdict.reasons) == ("fresh", ())


def test_a_dead_agent_is_lost_in_the_end_and_a_birth_brings_it_back():
    """Death is stale at once and lost after the same time as any silence."""
    shell = Shell()
    shell.run(5)
    shell.send(judging.status(shell.now_ms, "death"), lane="status")
    shell.wait(61_000)
    assert (shell.verdict.telemetry, shell.verdict.reasons) == ("lost", ("agent-gone",))

    shell.send(judging.status(shell.now_ms), lane="status")
    assert shell.verdict.telemetry == "fresh"


def test_a_worker_that_reads_late_does_not_see_silence():
    """Half an hour of the log is read at once: nobody falls silent by that."""
    shell = Shell()
    shell.run(5)
    shell.now_ms += 1_800_000
    for n in range(1, 20):
        ts_ms = shell.now_ms - 1_800_000 + n * 1000
        shell.send(judging.sample(5 + n, ts_ms), arrived_ms=ts_ms + 40)

    assert {"fresh"} == {v.telemetry for v in shell.verdicts}
    shell.tick()
    assert shell.verdict.telemetry == "lost"


def test_the_first_thing_heard_of_a_node_may_be_old():
    """A new worker without a state: what arrived an hour ago is no fresh word."""
    shell = Shell()
    ts_ms = shell.now_ms - 3_600_000
    shell.send(judging.sample(1, ts_ms), arrived_ms=ts_ms + 40)

    assert shell.verdict.telemetry == "lost"


def test_a_change_of_pool_is_news():
    """The steersman of another pool has to learn of the node."""
    shell = Shell()
    shell.run(20)
    before = shell.verdict.revision
    shell.pool = "h100"
    shell.tick()

    assert ("h100", before + 1) == (shell.verdict.pool, shell.verdict.revision)
    shell.pool = None
    shell.tick()
    assert shell.verdict.pool is None


def test_a_second_gpu_that_fails_is_news_although_the_words_of_the_node_stay():
    """Whoever explains the node needs to know which GPUs are bad."""
    shell = Shell()
    gpus = [gpu(f"GPU-{n}") for n in range(8)]
    shell.run(10, *gpus)
    shell.happen(uuid="GPU-1", xid=79)
    before = shell.verdict.revision
    shell.happen(uuid="GPU-2", xid=79)

    assert before + 1 == shell.verdict.revision
    assert [g.uuid for g in shell.verdict.gpus if g.health == "failed"] == ["GPU-1", "GPU-2"]


def test_a_new_gpu_is_news():
    """A verdict lists the GPUs that there are."""
    shell = Shell()
    shell.run(10, gpu("A"))
    before = shell.verdict.revision
    shell.run(1, gpu("A"), gpu("B"))

    assert before + 1 == shell.verdict.revision


@given(
    st.lists(st.integers(0, 100), min_size=4, max_size=40),
    st.sampled_from([None, 63, 79]),
    st.booleans(),
    st.integers(6, 600),
)
def test_an_outage_never_makes_a_node_more_attractive(percents, xid, died, silent_s):
    """After any life and any silence no word is better than before it."""
    shell = Shell()
    for percent in percents:
        shell.run(1, percent=float(percent))
    if xid is not None:
        shell.happen(xid=xid)
    before = shell.verdict
    if died:
        shell.send(judging.status(shell.now_ms, "death"), lane="status")
    shell.wait(silent_s * 1000)

    after = shell.verdict
    assert after.telemetry != "fresh"
    for word in ("load", "thermal", "power", "memory_free"):
        assert getattr(after, word) == "unknown"
    if before.health in {"failed", "degraded"}:
        assert before.health == after.health
    else:
        assert after.health in {before.health, "unknown"}


def test_with_the_gpu_gone_and_another_come_the_verdict_lists_the_other():
    """Same number of GPUs, other identity: that is news too."""
    shell = Shell()
    shell.run(10, gpu("A"))
    shell.send(
        judging.status(shell.now_ms, gpus=(judging.inventory("B"),)),
        lane="status",
    )
    shell.run(1, gpu("B"))

    assert [g.uuid for g in shell.verdict.gpus] == ["B"]
