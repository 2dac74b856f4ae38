"""The point of it all: the stock scheduler keeps pods off the busy and the broken node."""

import time
from collections import Counter
from collections.abc import Callable

import pytest

from ctl import pipeline
from support import kafka_reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

NODES = [f"edge-{n:02d}" for n in range(1, 7)]
BUSY, BROKEN = NODES[1], NODES[2]
POLICY = {"load": {"window_ms": 5000}, "health": {"dwell_ms": 3000}}


def wait_for(what: str, true: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
        time.sleep(0.2)


def taints(plane, node: str) -> dict[str, str]:
    found = plane.core.read_node(node).spec.taints or []
    return {t.key: t.effect for t in found}


def bind(plane, prefix: str, count: int) -> Counter[str]:
    """Create pods that any GPU node could take; where the stock scheduler put them."""
    names = [f"{prefix}-{n}" for n in range(count)]
    for name in names:
        plane.create_gpu_pod(name)
    wait_for("pods bound", lambda: all(plane.pod_node(n) for n in names), 60)
    return Counter(plane.pod_node(n) for n in names)


def start(pipe: pipeline.Pipeline, plane) -> None:
    pipe.start_bridge()
    pipe.start_processor(
        kube={
            "mode": "kubeconfig",
            "kubeconfig": str(plane.restricted_kubeconfig()),
            "dry_run": False,
        },
        policy=POLICY,
    )
    pipe.start_agents(count=len(NODES))
    wait_for(
        "the fleet is fresh",
        lambda: [n["telemetry"] for n in pipe.nodes().values()] == ["fresh"] * len(NODES),
        60,
    )


def test_pods_avoid_the_saturated_node_and_never_meet_the_failed_one(pipe, plane) -> None:
    """Pods spread over all nodes at first; once a node is saturated and one has failed, the
    stock scheduler puts none there although both have free GPUs; after recovery it does again."""
    for name in NODES:
        plane.create_gpu_node(name, gpus=16)
    plane.wait_ready(NODES, 60)
    plane.core.patch_node(
        NODES[0], {"spec": {"taints": [{"key": "other/one", "effect": "PreferNoSchedule"}]}}
    )
    before = bind(plane, "before", 24)
    start(pipe, plane)

    pipe.fault(node=BUSY, fault="load", utilization_percent=98, duration_s=600)
    pipe.fault(node=BROKEN, fault="xid", xid=79, gpu=0, duration_s=25)
    pipe.fault(node=BROKEN, fault="xid", xid=79, gpu=1, duration_s=25)
    wait_for(
        "taints",
        lambda: (
            "windvane.io/gpu-failed" in taints(plane, BROKEN)
            and "windvane.io/gpu-saturated" in taints(plane, BUSY)
        ),
        60,
    )
    during = bind(plane, "during", 24)
    labels = {n: plane.core.read_node(n).metadata.labels for n in (BUSY, BROKEN)}
    wait_for("recovery", lambda: "windvane.io/gpu-failed" not in taints(plane, BROKEN), 90)
    after = bind(plane, "after", 24)

    assert before[BUSY] > 0
    assert before[BROKEN] > 0
    assert during[BROKEN] == 0
    assert during[BUSY] == 0
    assert sum(during.values()) == 24
    assert after[BROKEN] > 0
    assert labels[BUSY]["windvane.io/gpu.load"] == "saturated"
    assert labels[BROKEN]["windvane.io/gpu.health"] == "failed"
    assert taints(plane, NODES[0]) == {"other/one": "PreferNoSchedule"}
    applied = [d for d in kafka_reader.decisions(pipe.bootstrap) if d.outcome == "applied"]
    assert {BUSY, BROKEN} <= {d.node for d in applied if d.taints}
