"""What every test shares: warnings are errors, unit tests have two seconds, servers are real."""

import os
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = ["support.server_fixtures", "support.kube_fixtures", "support.nvml_fixtures"]

ROOT = Path(__file__).resolve().parents[1]
UNIT_TIMEOUT_S = 2.0

hypothesis.settings.register_profile("windvane", deadline=None, max_examples=100, print_blob=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "windvane"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A unit test that hangs is a failed one; those with hypothesis get longer."""
    for item in items:
        if "unit" not in Path(item.fspath).relative_to(ROOT).parts:
            continue
        if item.get_closest_marker("timeout") is None:
            thorough = hasattr(getattr(item, "function", None), "hypothesis")
            item.add_marker(pytest.mark.timeout(60 if thorough else UNIT_TIMEOUT_S * 5))


@pytest.fixture
def traces() -> Path:
    """The recorded traces beside the project; a test that needs them skips without."""
    folder = ROOT.parent / "shared" / "data" / "traces"
    if not folder.is_dir():
        pytest.skip("the recorded traces (../shared/data/traces) are not beside this checkout")
    return folder
