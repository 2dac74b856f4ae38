"""Taking everything of ours off the nodes, against an API server that can be told to fail."""

import pytest

from cloud_processor import cli, config, errors
from cloud_processor.kube import clearing
from support.kube_stub import Answer, KubeStub

pytestmark = pytest.mark.timeout(20)

FOREIGN = {"key": "other/one", "value": "x", "effect": "NoSchedule"}
OURS = {"key": "windvane.io/gpu-failed", "value": "xid-79", "effect": "NoSchedule"}
OWNED = '{"labels":["windvane.io/gpu.load"],"taints":["windvane.io/gpu-failed:NoSchedule"]}'


@pytest.fixture
def stub():
    with KubeStub() as made:
        for name in ("a", "b"):
            made.put(
                name, labels={"windvane.io/gpu.load": "idle", "zone": "z"}, taints=[FOREIGN, OURS]
            )
            made.change(
                name,
                lambda node: node["metadata"].update(annotations={"windvane.io/owned-keys": OWNED}),
            )
        made.put("bare", labels={"zone": "z"})
        yield made


def settings(stub, folder, *, dry_run=False):
    return config.Kube(mode="kubeconfig", kubeconfig=str(stub.kubeconfig(folder)), dry_run=dry_run)


def test_all_of_ours_goes_and_nothing_else(stub, tmp_path):
    """BR-110: labels, taints and annotations of ours are gone, foreign ones stand; a second
    run finds nothing to do."""
    told = []
    clearing.run(settings(stub, tmp_path), "windvane.io", told.append)

    assert told == ["a: cleared\n", "b: cleared\n"]
    for name in ("a", "b"):
        node = stub.nodes[name]
        assert node["metadata"]["labels"] == {"zone": "z"}
        assert node["metadata"]["annotations"] == {}
        assert stub.taints(name) == {("other/one", "x", "NoSchedule")}
    writes = len(stub.writes())
    clearing.run(settings(stub, tmp_path), "windvane.io", told.append)

    assert len(stub.writes()) == writes


def test_dry_run_only_lists(stub, tmp_path):
    """BR-117: with dry_run nothing is written; what would be is told."""
    told = []
    clearing.run(settings(stub, tmp_path, dry_run=True), "windvane.io", told.append)

    assert len(told) == 2
    assert stub.writes() == []


def test_a_node_that_changes_meanwhile_is_read_again(stub, tmp_path):
    """BR-99, BR-100: conflicts are met by reading again; a node that is gone is done."""
    stub.script("PATCH", Answer(409), Answer(409))
    clearing.run(settings(stub, tmp_path), "windvane.io", lambda _: None)
    assert stub.taints("a") == {("other/one", "x", "NoSchedule")}

    stub.put("c")
    stub.change(
        "c", lambda node: node["metadata"].update(annotations={"windvane.io/owned-keys": OWNED})
    )
    stub.script("PATCH", Answer(404))
    clearing.run(settings(stub, tmp_path), "windvane.io", lambda _: None)


def test_what_stops_it_is_said(stub, tmp_path, capsys):
    """A refusal, a server that is away and a missing cluster end it with words, not a trace."""
    stub.script("PATCH", Answer(403, message="no rights"))
    with pytest.raises(errors.ClusterUnreachable, match="no rights"):
        clearing.run(settings(stub, tmp_path), "windvane.io", lambda _: None)

    assert cli.main(["--clear"]) == 2
    assert "kube.mode is off" in capsys.readouterr().err
