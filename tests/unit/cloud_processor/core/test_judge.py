"""The by-node step as a whole."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cloud_processor.core import judge, model, policy
from support import judging, strategies
from support.judging import T0_MS, Shell, gpu
from wire.sample import Envelope

RULES = policy.Policy()


def test_an_xid_fails_the_gpu_at_once_and_is_the_cause():
    """The verdict of an event does not wait for anything and names it."""
    shell = Shell()
    shell.run(10)
    shell.happen(xid=79)

    said = shell.verdicts[-1]
    assert said.health == "failed"
    assert ("event", judging.EPOCH, shell.seq) == (
        said.cause.kind,
        said.cause.epoch,
        said.cause.seq,
    )
    assert shell.now_ms == said.ts_unix_ms


def test_a_lost_gpu_is_told_once_and_the_others_go_on():
    """BR-21: GPU 1 is lost from tick 3 on; GPU 0 keeps flowing; no verdict each tick."""
    shell = Shell()
    shell.run(2, gpu("A"), gpu("B"))
    shell.run(60, gpu("A"), gpu("B", percent=None, state="lost"))

    assert shell.verdict.health == "failed"
    assert shell.verdict.reasons == ("gpu-lost",)
    failed = [v.revision for v in shell.verdicts if v.health == "failed"]
    assert len(failed) <= 4  # the fault, then load, heat and memory of what is left
    assert {"ok", "failed"} == {g.health for g in shell.verdict.gpus}
    assert shell.state.books.intakes[0].held[0][1] == 62


def test_recovery_is_by_evidence_after_the_dwell():
    """A fault goes when live samples show it gone, and not before its time."""
    shell = Shell()
    shell.run(5)
    shell.happen(xid=79)
    failed_ms = shell.now_ms
    shell.run(290)
    assert shell.verdict.health == "failed"

    shell.run(15)
    back = next(v for v in shell.verdicts if v.health == "ok" and v.ts_unix_ms > failed_ms)
    assert back.ts_unix_ms - failed_ms >= RULES.health.dwell_ms
    assert back.cause.kind == "sample"


def test_the_backlog_never_steers():
    """What was full and broken an hour ago says nothing of now."""
    shell = Shell()
    shell.run(20, percent=2.0)
    before = shell.verdict
    past_ms = shell.now_ms - 3_600_000
    shell.send(
        *[
            judging.sample(100 + n, past_ms + n * 1000, gpu(percent=99.0, state="lost"))
            for n in range(60)
        ],
        judging.event(200, past_ms, xid=79),
        lane="backlog",
    )

    assert before == shell.verdict
    assert (
        sum(a.samples for a in shell.aggregates if a.window_start_unix_ms < past_ms + 60_000) >= 60
    )


def test_the_backlog_never_hides_a_live_fault():
    """Sound samples of the past do not forgive."""
    shell = Shell(policy.parse({"health": {"dwell_ms": 1000}}))
    shell.run(5)
    shell.happen(xid=79)
    shell.now_ms += 10_000
    shell.send(
        *[judging.sample(100 + n, shell.now_ms - 9000 + n * 100) for n in range(50)], lane="backlog"
    )

    assert shell.verdict.health == "failed"


def test_an_old_sample_in_the_live_lane_does_not_steer_and_is_no_sign_of_life():
    """Messages that waited in a broker while their agent died."""
    shell = Shell()
    shell.run(5, percent=2.0)
    arrived_ms = shell.state.arrived_unix_ms
    ts_ms = shell.now_ms + 1000
    shell.now_ms += 120_000
    shell.send(judging.sample(6, ts_ms, gpu(percent=99.0, state="lost")), sent_ms=ts_ms + 10)
    shell.tick()

    assert arrived_ms == shell.state.arrived_unix_ms
    assert (shell.verdict.telemetry, shell.verdict.health) == ("lost", "unknown")


def test_an_old_event_is_noted_and_accuses_nobody():
    """After hours of outage the event lane goes first, but it is the past."""
    shell = Shell()
    shell.run(5)
    shell.happen(xid=79, age_ms=RULES.health.event_age_max_ms + 1000)

    assert shell.verdict.health == "ok"
    assert "event-too-old" in shell.names()


def test_application_faults_are_noted():
    """BR-30: recorded, no verdict."""
    shell = Shell()
    shell.run(10)
    before = shell.verdict.revision
    for code in (13, 31, 43, 45):
        shell.happen(xid=code)

    assert before == shell.verdict.revision
    assert shell.names().count("event-noted") == 4


def test_an_event_of_a_gpu_that_was_never_seen_is_believed_and_told():
    """A GPU may fail before its first sample."""
    shell = Shell()
    shell.run(2)
    shell.happen(uuid="GPU-z", xid=79)

    assert "unknown-gpu" in shell.names()
    assert shell.verdict.health == "failed"


def test_an_older_live_sample_never_overwrites_a_newer_one():
    """Replicas of the bridge deliver out of order."""
    shell = Shell()
    shell.run(20, percent=2.0)
    view = shell.state.view
    shell.seq += 2
    shell.send(judging.sample(shell.seq, shell.now_ms, gpu(percent=3.0)))
    newest = shell.state.view
    shell.send(judging.sample(shell.seq - 1, shell.now_ms - 100, gpu(percent=99.0, state="lost")))

    assert view != newest
    assert newest == shell.state.view
    assert len(shell.state.books.intakes[0].held) == 1


def test_a_duplicate_changes_nothing_but_its_count():
    """Redelivery is harmless."""
    shell = Shell()
    shell.run(10)
    state, verdicts = shell.state, len(shell.verdicts)
    shell.send(judging.sample(shell.seq, shell.now_ms, gpu(state="lost")))

    assert shell.state.books.intakes[0].duplicates == 1
    assert "duplicate" in shell.names()
    assert (state.view, verdicts) == (shell.state.view, len(shell.verdicts))


def test_a_skewed_node_is_used_flagged_and_told_once():
    """BR-45: two hours ahead: fresh by arrival, load judged, skew in the verdict."""
    shell = Shell()
    for seq in range(1, 41):
        shell.now_ms += 1000
        shell.send(
            judging.sample(seq, shell.now_ms + 7_200_000, gpu(percent=99.0)),
            sent_ms=shell.now_ms + 7_200_010,
        )
        shell.tick()

    assert (shell.verdict.telemetry, shell.verdict.load) == ("fresh", "saturated")
    assert shell.verdict.clock_skew_ms == 7_200_010
    assert shell.names().count("clock-skew") == 1


def test_skew_that_comes_again_is_told_again():
    """Once for each time it begins."""
    shell = Shell()
    for at, ahead_ms in enumerate([60_000, 0, 0, 60_000], 1):
        shell.now_ms += 200_000
        for n in range(2):
            shell.now_ms += 70_000
            shell.send(judging.sample(at * 2 + n, shell.now_ms + ahead_ms))

    assert shell.names().count("clock-skew") == 2


def test_ticks_that_are_not_due_change_nothing():
    """A shell with thousands of nodes asks only those whose time has come."""
    shell = Shell()
    shell.run(20)
    due_ms = judge.next_due_ms(shell.state, RULES)
    assert shell.now_ms < due_ms <= shell.now_ms + RULES.heartbeat_ms

    for now_ms in (shell.now_ms, due_ms - 1):
        state, actions = judge.tick(shell.state, policy=RULES, pool="default", now_ms=now_ms)
        assert (shell.state, ()) == (state, actions)
    _, actions = judge.tick(shell.state, policy=RULES, pool="default", now_ms=due_ms)
    assert actions


def test_what_is_due_after_silence():
    """Stale is waited for, then lost, then only the heartbeat."""
    shell = Shell()
    shell.run(5)
    dues = []
    for _ in range(12):
        shell.now_ms = judge.next_due_ms(shell.state, RULES)
        dues.append(shell.now_ms - shell.state.arrived_unix_ms)
        shell.tick()

    assert sorted(set(dues)) == dues
    assert RULES.telemetry.stale_ms in dues
    assert RULES.telemetry.lost_ms in dues
    assert shell.verdict.telemetry == "lost"


envelopes = st.builds(
    Envelope,
    v=st.just(1),
    cluster=st.just("demo"),
    node=st.just("edge-01"),
    epoch=st.sampled_from(["0" * 16, "1" * 16]),
    sent_unix_ms=strategies.times_ms,
    records=st.lists(
        strategies.samples | strategies.events | strategies.losses | strategies.statuses, max_size=4
    ).map(tuple),
)
steps = st.lists(
    st.tuples(
        envelopes, st.sampled_from(["live", "backlog", "events", "status"]), st.integers(0, 20_000)
    ),
    max_size=8,
)


@given(steps)
def test_any_envelope_is_judged_and_any_state_can_be_written_down(story):
    """Same input, same decision: from the state, and from the state read back; nothing fails."""
    state, windows, now_ms = judge.fresh("demo", "edge-01"), {}, T0_MS
    for envelope, lane, more_ms in story:
        now_ms += more_ms
        read = msgspec.json.decode(msgspec.json.encode(state), type=model.NodeState)
        assert state == read
        needed = judge.windows_needed(state, envelope, RULES)
        arguments = {
            "lane": lane,
            "arrived_unix_ms": now_ms,
            "closed": {start: windows[start] for start in needed},
            "policy": RULES,
            "pool": "default",
            "now_ms": now_ms,
        }
        once = judge.receive(state, envelope, **arguments)
        assert once == judge.receive(read, envelope, **arguments)
        ticked = judge.tick(once[0], policy=RULES, pool="default", now_ms=now_ms + 1)
        state = ticked[0]
        for action in (*once[1], *ticked[1]):
            match action:
                case judge.StoreWindow(start_unix_ms=start, window=window):
                    windows[start] = window
                case judge.DropWindow(start_unix_ms=start):
                    windows.pop(start)
        assert judge.next_due_ms(state, RULES) > 0


def test_a_node_that_looks_rarely_is_not_silent_between_two_looks():
    """BR-19: suspended GPUs, a sample each 30 s: fresh and idle, no verdict changes in between;
    when the samples stop, it is stale one wait and a half of the usual limit later.
    """
    shell = Shell()
    shell.run(20, gpu(percent=None, state="suspended"), cadence_ms=30_000)
    said = len(shell.verdicts)
    shell.run(20, gpu(percent=None, state="suspended"), cadence_ms=30_000)

    assert (shell.verdict.telemetry, shell.verdict.load) == ("fresh", "idle")
    assert len(shell.verdicts) == said
    shell.wait(32_000)
    assert shell.verdict.telemetry == "fresh"
    shell.wait(1_000)
    assert shell.verdict.telemetry == "stale"


def test_silence_of_a_node_at_full_rate_is_found_as_before():
    """At 1 Hz the limits are those of the policy; at 4 s they are 1.5 s later."""
    for cadence_ms, stale_ms in ((1000, 5_000), (4000, 6_500)):
        shell = Shell()
        shell.run(20, cadence_ms=cadence_ms)
        shell.wait(stale_ms - 500, step_ms=100)
        assert shell.verdict.telemetry == "fresh"
        shell.wait(600, step_ms=100)
        assert shell.verdict.telemetry == "stale"


def test_an_absurd_cadence_does_not_hide_a_silence():
    """An agent that claims to wait a year is lost all the same."""
    shell = Shell()
    shell.run(5, cadence_ms=1000)
    shell.seq += 1
    shell.send(judging.sample(shell.seq, shell.now_ms, cadence_ms=365 * 86_400_000))
    shell.wait(RULES.telemetry.cadence_ms_max + RULES.telemetry.lost_ms, step_ms=10_000)

    assert shell.verdict.telemetry == "lost"
