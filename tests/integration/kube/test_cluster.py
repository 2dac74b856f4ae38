"""The control plane of the tests comes up whole, or says why, and leaves nothing behind.

How pods and taints behave on it is told in `test_control_plane.py`.
"""

import re
import socket
import subprocess
from pathlib import Path

import pytest

from ctl import children, errors
from support import cluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

NODES = ("edge-01", "edge-02", "edge-03")


def ports_of(child: children.Child) -> set[int]:
    """Every loopback port that its command line names."""
    found = re.findall(r"(?:127\.0\.0\.1:|--secure-port=)(\d+)", " ".join(child.argv))
    return {int(port) for port in found}


def assert_gone(pids: list[int], ports: set[int]) -> None:
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, f"port {port} still answers"


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_nodes_become_ready_and_untainted(plane: cluster.ControlPlane) -> None:
    """Three kwok nodes with GPUs become Ready as nodes do in life: with leases, untainted."""
    for name in NODES:
        plane.create_gpu_node(name, gpus=4, labels={"pool": "p"})
    plane.wait_ready(NODES, 60)

    nodes = {n.metadata.name: n for n in plane.core.list_node(label_selector="pool=p").items}
    assert set(nodes) == set(NODES)
    assert not [n for n in nodes.values() if n.spec.taints]
    assert {n.status.allocatable["nvidia.com/gpu"] for n in nodes.values()} == {"4"}


def test_version_is_the_servers_own(plane: cluster.ControlPlane) -> None:
    """The version told is the running server's, and what build.sh builds is what runs."""
    assert re.fullmatch(r"1\.\d+\.\d+.*", plane.version)
    if cluster.find_binaries().name.startswith("kube-v"):
        assert plane.version == cluster.VERSION


def test_pod_is_bound_by_the_stock_scheduler(plane: cluster.ControlPlane) -> None:
    """A GPU pod is bound to the node with GPUs; one that fits nowhere is an error with logs."""
    plane.create_gpu_node("edge-01", gpus=2)
    plane.wait_ready(["edge-01"], 60)
    plane.core.create_namespace({"metadata": {"name": "team"}})
    plane.create_gpu_pod("small", gpus=2, namespace="team")
    plane.create_gpu_pod("large", gpus=3)

    assert plane.wait_bound("small", 10, namespace="team") == "edge-01"
    with pytest.raises(errors.CtlError, match="binding of pod large: not ready after 1 s"):
        plane.wait_bound("large", 1)


def test_nothing_is_left_after_an_error(tmp_path: Path) -> None:
    """A test that fails inside the context leaves no process and no port."""
    seen: list[children.Child] = []
    pids: list[int] = []

    def fails() -> None:
        with cluster.ControlPlane(tmp_path) as plane:
            seen.extend(plane._children)
            pids.extend(child.pid for child in seen)
            raise LookupError

    with pytest.raises(LookupError):
        fails()
    assert len(pids) == 5
    assert_gone(pids, set().union(*map(ports_of, seen)))


@pytest.mark.parametrize("broken", ["etcd", "kube-apiserver", "kube-scheduler", "kwok"])
def test_failed_start_tells_why(
    broken: str, tmp_path: Path, plane_binaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When one program dies at start, the error carries its log's end and nothing is left."""
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in cluster.NEEDED:
        if name != broken:
            (assets / name).symlink_to(plane_binaries / name)
    fake(assets, broken, "echo the disk is on fire; exit 7")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    plane = cluster.ControlPlane(tmp_path / "plane")

    with pytest.raises(errors.CtlError, match=rf"{broken} ended with code 7(?s:.*)on fire"):
        plane.__enter__()
    assert_gone([c.pid for c in plane._children], set().union(*map(ports_of, plane._children)))


def test_foreign_assets_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A KUBEBUILDER_ASSETS folder without all programs is refused, naming the missing ones."""
    for name in ("etcd", "kube-apiserver", "kubectl"):
        fake(tmp_path, name, "true")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    with pytest.raises(errors.Unavailable) as refused:
        cluster.find_binaries()
    for name in ("kube-scheduler", "kube-controller-manager", "kwok", "stages.yaml", "make kube"):
        assert name in str(refused.value)


def test_half_a_build_is_no_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before build.sh has finished, the reason says which command to run."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    where = subprocess.run([cluster.BUILD, "--where"], capture_output=True, text=True, check=True)
    folder = Path(where.stdout.strip())
    folder.mkdir(parents=True)
    fake(folder, "etcd", "true")

    with pytest.raises(errors.Unavailable, match="make kube"):
        cluster.find_binaries()


@pytest.mark.parametrize(
    "go",
    [
        pytest.param("exit 127", id="none"),
        pytest.param("echo go1.23.9", id="too old for all"),
        pytest.param(
            '[ "$1" = env ] && echo go1.24.10 && exit; echo "requires go >= 1.26" >&2; exit 1',
            id="too old for etcd",
        ),
    ],
)
def test_old_go_is_refused_before_compiling(
    go: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Go that cannot build all of it ends build.sh at once with code 3 and the reason."""
    fake(tmp_path, "go", go)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    done = subprocess.run([cluster.BUILD], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "needs" in done.stderr
    assert not (tmp_path / "cache").exists()
