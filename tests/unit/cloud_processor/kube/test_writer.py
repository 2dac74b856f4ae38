"""The writer and the directory against an API server that can be told to fail.

The real `kubernetes` client speaks HTTP to a stub on loopback.
"""

import threading
import time

import prometheus_client as prom
import pytest

from cloud_processor import config, telemetry
from cloud_processor.core import policy
from cloud_processor.kube import client, directory, writer
from support import steering
from support.kube_stub import Answer, KubeStub

pytestmark = pytest.mark.timeout(20)

PACE = writer.Pace(
    per_second=2000.0,
    burst=1000,
    node_gap_s=0.0,
    foreign_gap_s=0.3,
    conflict_pause_s=0.01,
    away_min_s=0.02,
    away_max_s=0.1,
    refused_pause_s=5.0,
)
FOREIGN = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
LOAD = "windvane.io/gpu.load"


class Bench:
    """Stub, directory and writer together, and what the writer has answered."""

    def __init__(self, stub, folder, pace):
        self.stub = stub
        self.answers = []
        self.told = telemetry.Telemetry(prom.CollectorRegistry())
        self.settings = config.Kube(
            mode="kubeconfig", kubeconfig=str(stub.kubeconfig(folder)), dry_run=False
        )
        self.api = client.NodeWriter(self.settings)
        self.known = directory.KubeDirectory(
            reader=self.api, rules=policy.Policy(), cluster="", telemetry=self.told
        )
        self.writer = writer.Writer(
            api=self.api,
            known=self.known,
            domain="windvane.io",
            answer=self.answers.append,
            telemetry=self.told,
            pace=pace,
        )
        self.known.on_change(self.writer.node_changed)

    def start(self):
        self.known.start()
        assert self.known.listed.wait(5)
        self.writer.start()

    def outcomes(self):
        return [answer.outcome for answer in self.answers]

    def metric(self, name, **labels):
        return self.told.registry.get_sample_value(f"windvane_processor_{name}", labels) or 0.0


@pytest.fixture
def pace():
    return PACE


@pytest.fixture
def bench(tmp_path, pace):
    with KubeStub() as stub:
        for n in range(1, 4):
            stub.put(f"edge-{n:02d}", labels={"kubernetes.io/os": "linux"})
        made = Bench(stub, tmp_path, pace)
        made.start()
        yield made
        made.writer.stop()
        made.known.stop()


def test_a_wish_is_one_patch_and_an_equal_wish_is_none(bench):
    """BR-104: one PATCH for a change; nothing is written while nothing changes."""
    bench.writer.wish(steering.wish(taints=[steering.FAILED]))
    bench.stub.wait(lambda: bench.outcomes() == ["applied"])

    for number in range(50):
        bench.writer.wish(steering.wish(taints=[steering.FAILED], number=number))
    bench.stub.wait(lambda: bench.writer.pending == 0)

    assert len(bench.stub.writes()) == 1
    assert ("windvane.io/gpu-failed", "xid-79", "NoSchedule") in bench.stub.taints("edge-01")
    assert bench.answers[0].answered_unix_ms is not None


def test_a_taint_added_between_read_and_patch_survives(bench):
    """BR-96: the patch carries the version it was computed from, conflicts, and is redone."""
    fired = threading.Event()

    def somebody_else(name):
        if not fired.is_set():
            fired.set()
            bench.stub.change(name, lambda node: node["spec"].update(taints=[FOREIGN]))

    bench.stub.before_patch = somebody_else
    bench.writer.wish(steering.wish(taints=[steering.FAILED]))
    bench.stub.wait(lambda: bench.outcomes() == ["applied"])

    keys = {key for key, _, _ in bench.stub.taints("edge-01")}
    assert keys == {"node.kubernetes.io/unreachable", "windvane.io/gpu-failed"}
    assert bench.metric("kube_conflicts_total") == 1


def test_conflicts_are_planned_again_until_the_patch_is_taken(bench):
    """BR-99: 409 twice, the object different at each read; applied on the third."""
    left = [2]

    def busy_kubelet(name):
        if left[0]:
            left[0] -= 1
            stamp = str(left[0])
            bench.stub.change(
                name, lambda node: node["metadata"]["annotations"].update(stamp=stamp)
            )

    bench.stub.before_patch = busy_kubelet
    bench.writer.wish(steering.wish(taints=[steering.FAILED]))
    bench.stub.wait(lambda: bench.outcomes() == ["applied"])

    assert len(bench.stub.patches()) == 3


def test_endless_conflicts_put_the_wish_back_in_line(bench):
    """BR-99: after some rounds the wish is queued again and not lost."""
    bench.stub.script("PATCH", *[Answer(409)] * 8)
    bench.writer.wish(steering.wish(taints=[steering.FAILED]))

    bench.stub.wait(lambda: bench.outcomes() == ["applied"])

    assert len(bench.stub.patches()) == 9


def test_a_node_that_is_gone_is_told_once_and_left(bench):
    """BR-100: 404 at the patch: no retry, the wish is dropped."""
    bench.stub.script("PATCH", Answer(404))
    bench.writer.wish(steering.wish())
    bench.stub.wait(lambda: bench.outcomes() == ["unknown-node"])

    bench.writer.node_changed("edge-01")
    time.sleep(0.2)

    assert len(bench.stub.patches()) == 1
    assert bench.writer.pending == 0


def test_the_writer_keeps_no_trace_of_nodes_that_come_and_go(bench):
    """BR-100: nodes that are not there leave nothing behind, however many."""
    for number in range(150):
        bench.writer.wish(steering.wish(f"gone-{number}"))
    bench.stub.wait(lambda: len(bench.answers) == 150)

    assert set(bench.outcomes()) == {"unknown-node"}
    assert not bench.writer._wishes
    assert not bench.writer._written_s


def test_after_429_everyone_waits_as_long_as_asked(bench):
    """BR-104: Retry-After is honoured, for other nodes too, and the wish stays."""
    bench.stub.script("PATCH", Answer(429, {"Retry-After": "1"}))
    bench.writer.wish(steering.wish())
    bench.stub.wait(lambda: len(bench.stub.patches()) == 1)
    bench.writer.wish(steering.wish("edge-02"))
    bench.stub.wait(lambda: bench.outcomes() == ["applied"] * 2)

    first, *later = [request.at_s for request in bench.stub.patches()]
    assert min(later) - first >= 1.0


def test_api_server_away_keeps_the_newest_wish_and_writes_once(bench):
    """An outage: wishes change meanwhile; one patch with the newest when it is back."""
    bench.stub.stop()
    bench.writer.wish(steering.wish(labels={LOAD: "high"}, number=1))
    bench.stub.wait(lambda: "failed" in bench.outcomes())
    bench.writer.wish(steering.wish(labels={LOAD: "saturated"}, number=2))
    bench.stub.start()
    bench.stub.wait(lambda: "applied" in bench.outcomes())

    assert len(bench.stub.patches()) == 1
    assert bench.stub.nodes["edge-01"]["metadata"]["labels"][LOAD] == "saturated"


def test_server_errors_are_tried_again(bench):
    """5xx is an outage, not an answer: the record that met it is not lost (BR-92)."""
    bench.stub.script("PATCH", Answer(503), Answer(500))
    bench.writer.wish(steering.wish())

    bench.stub.wait(lambda: "applied" in bench.outcomes())

    assert len(bench.stub.patches()) == 3


def test_a_rotated_token_is_read_again_after_401(bench, tmp_path):
    """BR-105: the server takes only the new token; a short run of 401s, then it is used."""
    bench.stub.token = "secret"
    bench.writer.wish(steering.wish())
    bench.stub.wait(lambda: bench.outcomes() == ["applied"])

    bench.stub.token = "rotated"
    bench.stub.kubeconfig(tmp_path, token="rotated")
    bench.writer.wish(steering.wish(labels={LOAD: "high"}, number=2))
    bench.stub.wait(lambda: bench.outcomes()[-1] == "applied" and len(bench.answers) > 1)

    assert bench.stub.nodes["edge-01"]["metadata"]["labels"][LOAD] == "high"


def test_a_refusal_is_told_once_and_not_hammered(bench):
    """403: it takes a person; the reason is told, the next try comes late."""
    bench.stub.script("PATCH", *[Answer(403, {}, "system:anonymous may not")] * 20)
    bench.writer.wish(steering.wish())
    bench.stub.wait(lambda: bench.outcomes() == ["failed"])
    time.sleep(0.3)

    assert len(bench.stub.patches()) == 1
    assert "no credentials" in bench.answers[0].reason


def test_a_foreign_change_of_our_keys_is_met_once_after_a_pause(bench):
    """BR-116 in part: what somebody else does to our keys is not fought at once."""
    bench.writer.wish(steering.wish(taints=[steering.FAILED]))
    bench.stub.wait(lambda: bench.outcomes() == ["applied"])
    removed_s = time.monotonic()

    bench.stub.change("edge-01", lambda node: node["spec"].update(taints=[]))
    bench.stub.wait(lambda: len(bench.stub.patches()) == 2)

    assert bench.stub.patches()[1].at_s - bench.stub.patches()[0].at_s >= PACE.foreign_gap_s
    assert time.monotonic() - removed_s < 3.0
    assert bench.stub.taints("edge-01")


def test_a_foreign_taint_and_a_cordon_are_left_as_they_are(bench):
    """BR-116: our fault comes and goes, an admin's cordon and taint stay."""
    bench.stub.put("edge-02", taints=[FOREIGN], unschedulable=True)
    bench.stub.wait(lambda: bench.known.get("edge-02").unschedulable)

    bench.writer.wish(steering.wish("edge-02", taints=[steering.FAILED]))
    bench.stub.wait(lambda: len(bench.answers) == 1)
    bench.writer.wish(steering.wish("edge-02", number=2))
    bench.stub.wait(lambda: len(bench.answers) == 2)

    assert bench.stub.taints("edge-02") == {(FOREIGN["key"], "", "NoExecute")}
    assert bench.stub.nodes["edge-02"]["spec"]["unschedulable"] is True


def test_restarted_writer_wishing_the_same_changes_nothing(bench, tmp_path):
    """BR-110: a restart of the processor leaves the node untouched."""
    bench.writer.wish(steering.wish(taints=[steering.FAILED]))
    bench.stub.wait(lambda: bench.outcomes() == ["applied"])

    again = Bench(bench.stub, tmp_path, PACE)
    again.start()
    again.writer.wish(steering.wish(taints=[steering.FAILED], number=7))
    bench.stub.wait(lambda: again.writer.pending == 0)
    again.writer.stop()
    again.known.stop()

    assert len(bench.stub.writes()) == 1


@pytest.mark.parametrize("how", ["event", "status"])
def test_a_watch_that_is_too_old_lists_again(bench, how):
    """BR-102: 410 inside the stream or on connect: new list, deleted nodes are gone, no loop."""
    bench.stub.wait(lambda: bench.stub._watchers)
    lists = len([r for r in bench.stub.requests if r.method == "GET"])
    with bench.stub._lock:
        bench.stub.nodes.pop("edge-03")
        if how == "event":
            bench.stub.expire()
        else:
            bench.stub.oldest = bench.stub._version + 1
            bench.stub._version += 2
            bench.stub.end_watches()

    bench.stub.wait(lambda: bench.known.get("edge-03") is None)
    bench.stub.put("edge-04")
    bench.stub.wait(lambda: bench.known.get("edge-04") is not None)

    assert len([r for r in bench.stub.requests if r.method == "GET"]) - lists <= 2


def test_a_deleted_node_is_forgotten_by_the_watch(bench):
    """BR-100: a DELETED event ends the node's wish."""
    bench.writer.wish(steering.wish("edge-03"))
    bench.stub.wait(lambda: len(bench.answers) == 1)

    bench.stub.delete("edge-03")
    bench.stub.wait(lambda: bench.known.get("edge-03") is None)
    bench.stub.wait(lambda: "edge-03" not in bench.writer._wishes)
