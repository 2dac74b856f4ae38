"""The writer on a real API server, with the rights that the processor is given and no more."""

import threading

import prometheus_client as prom
import pytest

from cloud_processor import config, telemetry
from cloud_processor.core import policy
from cloud_processor.kube import client, directory, writer
from support import steering

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

FOREIGN = {"key": "example.com/maintenance", "value": "tuesday", "effect": "NoSchedule"}


def test_labels_and_taints_on_a_real_node(plane):
    """BR-96 on the real thing: a foreign taint put between our read and our patch survives."""
    names = [f"edge-{n:02d}" for n in range(1, 4)]
    for name in names:
        plane.create_gpu_node(name)
    plane.wait_ready(names, 60)
    told = telemetry.Telemetry(prom.CollectorRegistry())
    api = client.NodeWriter(
        config.Kube(mode="kubeconfig", kubeconfig=str(plane.restricted_kubeconfig()), dry_run=False)
    )
    known = directory.KubeDirectory(reader=api, rules=policy.Policy(), cluster="", telemetry=told)
    answers, answered = [], threading.Semaphore(0)

    def answer(result):
        answers.append(result)
        answered.release()

    made = writer.Writer(api=api, known=known, domain="windvane.io", answer=answer, telemetry=told)
    known.start()
    assert known.listed.wait(30)
    made.start()
    try:
        stale = known.get("edge-01")
        plane.core.patch_node("edge-01", {"spec": {"taints": [FOREIGN]}})
        known._nodes["edge-01"] = stale  # as if the watch were late
        made.wish(steering.wish("edge-01", taints=[steering.FAILED]))
        made.wish(steering.wish("edge-02"))
        made.wish(steering.wish("edge-09"))
        for _ in range(3):
            assert answered.acquire(timeout=20)
    finally:
        made.stop()
        known.stop()

    outcomes = {result.wish.node: result.outcome for result in answers}
    first = plane.core.read_node("edge-01")
    keys = {taint.key for taint in first.spec.taints}
    assert outcomes == {"edge-01": "applied", "edge-02": "applied", "edge-09": "unknown-node"}
    assert keys == {"example.com/maintenance", "windvane.io/gpu-failed"}
    assert first.metadata.labels["windvane.io/gpu.load"] == "low"
    assert plane.core.read_node("edge-02").spec.taints is None
