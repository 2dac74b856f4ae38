"""The control plane the tests stand on behaves as Kubernetes does."""

import socket
import time
from pathlib import Path

import kubernetes
import pytest

from support import cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def bound(plane: cluster.ControlPlane, pod: str, timeout_s: float = 10) -> str | None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and plane.pod_node(pod) is None:
        time.sleep(0.1)
    return plane.pod_node(pod)


def test_scheduler_respects_taints(plane: cluster.ControlPlane) -> None:
    """GPU pods are bound by the stock scheduler, and not to a node with a NoSchedule taint."""
    plane.create_gpu_node("a", gpus=8)
    plane.create_gpu_node("b", gpus=8)
    plane.wait_ready(["a", "b"], 60)
    taint = {"key": "x/y", "effect": "NoSchedule"}
    plane.core.patch_node("a", {"spec": {"taints": [taint]}})
    for n in range(4):
        plane.create_gpu_pod(f"p{n}")
    plane.create_gpu_pod("tolerant", tolerations=[{"key": "x/y", "operator": "Exists"}])

    assert {bound(plane, f"p{n}") for n in range(4)} == {"b"}
    assert bound(plane, "tolerant") in {"a", "b"}


def test_gpus_are_counted(plane: cluster.ControlPlane) -> None:
    """A node gives no more GPUs than it has."""
    plane.create_gpu_node("a", gpus=1)
    plane.wait_ready(["a"], 60)
    plane.create_gpu_pod("one")
    plane.create_gpu_pod("two")

    assert {bound(plane, "one", 5), bound(plane, "two", 2)} == {"a", None}


def test_restricted_user_may_touch_nodes_only(plane: cluster.ControlPlane) -> None:
    """The processor's identity patches nodes and can do nothing else."""
    plane.create_gpu_node("a")
    config = str(plane.restricted_kubeconfig())
    core = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(config))
    core.patch_node("a", {"metadata": {"labels": {"windvane.io/x": "y"}}})

    for forbidden in (core.list_pod_for_all_namespaces, lambda: core.delete_node("a")):
        with pytest.raises(kubernetes.client.ApiException) as refused:
            forbidden()
        assert refused.value.status == 403


def test_nothing_is_left(tmp_path: Path) -> None:
    """After the context no process of it runs and its port is free."""
    with cluster.ControlPlane(tmp_path) as plane:
        pids = [child.pid for child in plane._children]
        port = plane._port

    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
