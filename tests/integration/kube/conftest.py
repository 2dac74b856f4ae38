"""What these tests need beside the control plane itself (`support/kube_fixtures.py`)."""

from pathlib import Path

import pytest

from ctl import errors
from support import cluster, server_fixtures


@pytest.fixture
def plane_binaries() -> Path:
    """The real binaries; when they are missing it fails in CI and skips elsewhere."""
    try:
        return cluster.find_binaries()
    except errors.Unavailable as reason:
        server_fixtures.unavailable(reason)
        raise
