"""Fixture for a real Kubernetes control plane."""

from collections.abc import Iterator

import pytest

from ctl import errors
from support import cluster, server_fixtures


@pytest.fixture
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.ControlPlane]:
    """An empty control plane for one test; missing binaries fail in CI and skip elsewhere."""
    try:
        cluster.find_binaries()
    except errors.Unavailable as reason:
        server_fixtures.unavailable(reason)
    with cluster.ControlPlane(tmp_path_factory.mktemp("kube")) as made:
        server_fixtures.USED[f"Kubernetes {made.version}"] += 0
        yield made
