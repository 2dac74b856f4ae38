"""The rows of KubeEdge and the GPU Operator: whole, sourced, and without contradictions."""

import pytest

from wire import matrix_drivers as drivers
from wire import matrix_kubernetes as kubernetes
from wire.matrix_findings import driver_numbers, numbers, release_numbers


@pytest.mark.parametrize("row", kubernetes.KUBEEDGE.values(), ids=lambda row: row.release)
def test_every_kubeedge_row_is_whole(row):
    """Exact, plus and minus are apart and adjacent; it was built with one that is exact."""
    listed = sorted((*row.plus, *row.exact, *row.minus), key=numbers)
    first = numbers(listed[0])[1]

    assert listed == [f"1.{first + n}" for n in range(len(listed))]
    assert [*row.plus, *row.exact, *row.minus] == listed
    assert ".".join(str(n) for n in (release_numbers(row.built_with) or ())[:2]) in row.exact
    assert row.readme_date
    assert "README.md@" in row.source
    assert row.first_date <= row.last_date


def test_kubeedge_readmes_ascend():
    """A later release stands in a README that is not older."""
    dates = [row.readme_date for row in kubernetes.KUBEEDGE.values()]

    assert dates == sorted(dates)


@pytest.mark.parametrize("row", kubernetes.OPERATORS.values(), ids=lambda row: row.version)
def test_every_operator_row_is_whole(row):
    """Its default driver is a version that the driver rows know, and was out by then."""
    version = driver_numbers(row.driver)
    assert version is not None
    branch = drivers.BRANCHES[version[0]]

    assert row.source.startswith("NVIDIA/gpu-operator v")
    assert bool(row.validated) == ("cloud-native-docs" in row.source)
    assert branch.first_version is None or version >= numbers(branch.first_version)
    assert branch.last_version is None or version <= numbers(branch.last_version)
    assert branch.first_date is None or branch.first_date <= row.date


def test_lines_of_support_are_the_two_newest():
    """The documentation names the newest line as supported and the one before as deprecated."""
    lines = sorted({numbers(version)[:2] for version in kubernetes.OPERATORS})

    assert lines[-2:] == [kubernetes.DEPRECATED_LINE, kubernetes.SUPPORTED_LINE]
