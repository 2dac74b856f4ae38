"""Which sets of names stand on the page."""

import pytest

from support import gpus


@pytest.mark.parametrize(
    ("names", "prefixes"),
    [
        ((), {"windvane"}),
        (("dcgm",), {"windvane", "DCGM"}),
        (("kepler",), {"windvane", "kepler"}),
        (("dcgm", "kepler", "dcgm"), {"windvane", "DCGM", "kepler"}),
    ],
)
def test_the_chosen_sets_are_there(names, prefixes):
    """Ours always, theirs when asked for, none twice."""
    series = gpus.series(gpus.page(gpus.whole_page(*names)))
    told = [(name, tuple(sorted(labels.items()))) for name, labels, _ in series]

    assert {name.split("_")[0] for name, _ in told} == prefixes
    assert len(set(told)) == len(told)


def test_a_stale_node_has_no_aliases():
    """Their dashboards take a line that stands still for a GPU that works."""
    registry = gpus.registry_of("dcgm", gpus.sample(gpus.h100()), age_ms=10_001)

    assert "DCGM_" not in gpus.page(registry)


def test_a_node_without_a_sample_has_none():
    """Only an event was heard yet."""
    assert "DCGM_" not in gpus.page(gpus.registry_of("dcgm", gpus.xid(79)))
