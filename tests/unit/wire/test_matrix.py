"""The judgement: what the rows say, and never more."""

import datetime as dt
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wire import matrix
from wire import matrix_drivers as drivers
from wire import matrix_kubernetes as kubernetes
from wire.matrix_findings import REASONS_MAX, State

DAY = dt.date(2026, 12, 1)
STATES = get_args(State)

days = st.dates(dt.date(2020, 1, 1), dt.date(2040, 12, 31))
told = st.none() | st.text(max_size=30) | st.sampled_from(drivers.ARCHITECTURES)
digits = st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,4}){0,4}", fullmatch=True)
texts = st.none() | st.text(max_size=60) | digits


def version_of(row: drivers.Branch) -> str:
    """A version that the branch is known to have, or would have."""
    return row.last_version or f"{row.branch}.1"


def driver(version, *architectures, day=DAY):
    return matrix.judge_driver(version, architectures, day).state


@pytest.mark.parametrize("architecture", drivers.ARCHITECTURES)
@pytest.mark.parametrize("branch", drivers.BRANCHES)
def test_each_branch_and_architecture_is_judged_as_its_row_says(branch, architecture):
    """A GPU that the row lacks is unsupported on any day; one that it has is not."""
    row = drivers.BRANCHES[branch]
    for day in (DAY, dt.date(2020, 1, 1), dt.date(2040, 1, 1)):
        state = driver(version_of(row), architecture, day=day)

        assert (state == "unsupported") == (architecture not in row.architectures)
        if row.end_of_life is not None and architecture in row.architectures:
            ended = f"{day:%Y-%m}" > row.end_of_life
            assert state == ("old" if ended else "ok")


@given(digits | st.text(max_size=40), st.lists(told, max_size=4), days)
@example("0580.95.05", ["Hopper"], DAY)
@example("580", ["Hopper"], DAY)
@example("580.95.05.1", ["Hopper"], DAY)
@example("580.95.05-open", ["Hopper"], DAY)
@example("५८०.95.05", ["Hopper"], DAY)
@example("595.91.07; rm", ["Hopper"], DAY)
def test_ok_only_for_a_version_of_a_branch_that_is_maintained(version, architectures, day):
    """Unknown text never gives ok, whatever stands beside it: the whole kind."""
    found = matrix.judge_driver(version, architectures, day)

    assert found.state in STATES
    assert 1 <= len(found.reasons) <= REASONS_MAX
    assert max(map(len, found.reasons)) < 1024
    if found.state == "ok":
        row = drivers.BRANCHES[int(version.strip()[:3])]
        assert row.end_of_life is not None
        assert f"{day:%Y-%m}" <= row.end_of_life
        assert architectures
        assert {matrix.architecture_of(one) for one in architectures} <= set(row.architectures)


@given(texts, texts)
def test_no_text_makes_the_other_judgements_stumble(one, other):
    """Any two texts are answered; ok is only said of what the matrix lists."""
    edge = matrix.judge_kubernetes(one, other)
    operator = matrix.judge_operator(one, other)
    cuda = matrix.judge_cuda(one, other)

    assert {edge.state, operator.state, cuda.state} <= set(STATES)
    if None in {one, other}:
        assert {edge.state, operator.state, cuda.state} == {"unknown"}


@given(st.sampled_from(sorted(drivers.BRANCHES)), st.lists(told, max_size=4), days, days)
def test_what_is_old_stays_old(branch, architectures, one, other):
    """Time alone makes no driver younger, nor an unsupported GPU supported."""
    version = version_of(drivers.BRANCHES[branch])
    before, after = (driver(version, *architectures, day=day) for day in sorted((one, other)))

    if before in {"old", "unsupported"}:
        assert before == after
    if before == "unknown":
        assert after != "ok"


def test_a_branch_is_maintained_to_the_end_of_its_last_month():
    """The first day of the next month is the first one on which it is old."""
    row = drivers.BRANCHES[580]
    assert row.end_of_life == "2028-06"

    assert driver("580.95.05", "Hopper", day=dt.date(2028, 6, 30)) == "ok"
    assert driver("580.95.05", "Hopper", day=dt.date(2028, 7, 1)) == "old"


def test_a_branch_that_had_ended_by_a_month_is_old_after_it():
    """When exactly it ended is not known: during the month that is not either."""
    assert drivers.BRANCHES[575].ended_by == "2025-08"

    assert driver("575.64.05", "Hopper", day=dt.date(2025, 8, 31)) == "unknown"
    assert driver("575.64.05", "Hopper", day=dt.date(2025, 9, 1)) == "old"


def test_a_branch_without_a_date_is_old_below_the_oldest_maintained_one():
    """590 has none, and 580 is maintained longer: unknown until then, never ok."""
    assert driver("520.61.07", "Hopper") == "old"
    assert driver("590.48.01", "Hopper") == "unknown"
    assert driver("590.48.01", "Hopper", day=dt.date(2028, 7, 1)) == "old"
    assert driver("590.48.01", "Hopper", day=dt.date(2039, 1, 1)) == "old"


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("418.43", "old"),  # before the first row
        ("540.4.0", "unknown"),  # Tegra
        ("566.36", "unknown"),  # Windows
        ("580.00", "unknown"),  # Tegra, below the branch's first version
        ("580.65.05", "unknown"),
        ("580.65.06", "ok"),
        ("580.250", "ok"),  # branches go on
        ("625.10", "unknown"),
        ("999.1", "unknown"),
        ("36.4.0", "unknown"),  # a JetPack release
        ("6.8.0", "unknown"),  # a kernel
        ("simulated", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_versions_outside_the_rows(version, state):
    """Older than every row is old; gaps, Tegra, Windows and the future are unknown."""
    assert driver(version, "Blackwell") == state


def test_developer_builds_are_unknown_and_odd_numbers_are_not():
    """580.94 is a developer build; 580.95.05 is an ordinary driver with an odd number."""
    assert driver("580.94.03", "Ada") == "unknown"
    assert driver("580.95.05", "Ada") == "ok"
    assert driver("550.40.76", "Ada") == "old"


def test_one_gpu_of_many_decides():
    """Unsupported outweighs old, old outweighs unknown, unknown outweighs ok."""
    assert driver("595.91.07", "Turing", "Volta", None) == "unsupported"
    assert driver("570.211.01", "Hopper", "Rubin") == "old"
    assert driver("580.95.05", "Hopper", None) == "unknown"
    assert driver("580.95.05", "Hopper", "Rubin") == "unknown"
    assert driver("580.95.05") == "unknown"


def test_reasons_name_what_was_found():
    """The word's own reasons come first, and foreign text is quoted short."""
    found = matrix.judge_driver("595.91.07", ["Volta", "\x1b[2J" + "x" * 500], DAY)

    assert found.reasons[0] == "branch 595 drives Turing to Blackwell, not Volta"
    assert "\x1b" not in "".join(found.reasons)
    assert max(map(len, found.reasons)) < 100


@pytest.mark.parametrize(
    ("name", "capability", "architecture"),
    [
        ("Hopper", None, "Hopper"),
        ("ada lovelace", None, "Ada"),
        (" Ampere ", "8.6", "Ampere"),
        (None, "12.1", "Blackwell"),
        (None, "7.5", "Turing"),
        (None, "7.9", None),
        ("Rubin", None, None),
        ("Rubin", "9.0", "Hopper"),
        ("Hopper", "8.0", None),
        ("", "", None),
        (None, None, None),
    ],
)
def test_architectures_by_name_and_capability(name, capability, architecture):
    """Names as drivers and people write them; two that disagree give nothing."""
    assert matrix.architecture_of(name, capability) == architecture


@pytest.mark.parametrize(
    ("product", "architecture"),
    [
        ("Tesla T4", "Turing"),
        ("NVIDIA A100-SXM4-40GB", "Ampere"),
        ("NVIDIA H100 80GB HBM3", "Hopper"),
        ("NVIDIA GeForce RTX 4070 Laptop GPU", "Ada"),
        ("gb300", "Blackwell"),
        ("T400", None),
        ("NVIDIA RTX 4000 SFF Ada Generation", None),
        ("NVIDIA", None),
        ("", None),
    ],
)
def test_architectures_by_product(product, architecture):
    """Whole words of products that were seen; what only looks like one is not guessed."""
    assert matrix.architecture_of_model(product) == architecture


@pytest.mark.parametrize(
    ("version", "cuda", "state"),
    [
        ("550.54.15", "12.4", "ok"),
        ("550.54.15", "11.8", "ok"),
        ("550.54.15", "12.4.1", "ok"),
        ("550.54.15", "12.6", "unknown"),
        ("550.54.15", "13.0", "unsupported"),
        ("615.10", "12.0", "unknown"),
        ("418.43", "10.1", "unknown"),
        ("550.54.15", "twelve", "unknown"),
        ("new", "12.4", "unknown"),
    ],
)
def test_cuda_against_the_branch(version, cuda, state):
    """Up to the maximum ok, beyond it in the same major unknown, a later major unsupported."""
    assert matrix.judge_cuda(version, cuda).state == state


@pytest.mark.parametrize("release", kubernetes.KUBEEDGE)
def test_each_kubeedge_release_is_judged_as_its_row_says(release):
    """Exact in the newest README is ok; what that README lists no more is old at best."""
    row = kubernetes.KUBEEDGE[release]
    newest = max(one.readme_date for one in kubernetes.KUBEEDGE.values())
    current = row.readme_date == newest
    listed = {*row.exact, *row.plus, *row.minus}
    minors = sorted(int(one.removeprefix("1.")) for one in listed)
    for minor in range(1, 60):
        state = matrix.judge_kubernetes(release, f"v1.{minor}.3").state

        if f"1.{minor}" in row.exact:
            assert state == ("ok" if current else "old")
        elif f"1.{minor}" in listed:
            assert state == "old"
        elif minor < minors[0]:
            assert state == "unsupported"
        else:
            assert state == ("unknown" if current else "old")


@pytest.mark.parametrize(
    ("edge", "cluster", "state"),
    [
        ("1.23", "1.31", "ok"),
        ("v1.23.1", "v1.31.4+k3s1", "ok"),
        ("1.24", "1.31", "unknown"),
        ("1.23", "31", "unknown"),
        ("latest", "1.31", "unknown"),
        (None, "1.31", "unknown"),
        ("1.23", None, "unknown"),
    ],
)
def test_kubernetes_pairs(edge, cluster, state):
    """Versions as distributions write them; no version, no judgement."""
    assert matrix.judge_kubernetes(edge, cluster).state == state


@pytest.mark.parametrize(
    ("operator", "cluster", "state"),
    [
        ("26.7.0", "1.34", "ok"),
        ("v26.3.1", "1.33", "ok"),
        ("26.7.0", "1.37", "unknown"),
        ("26.7.0", "1.32", "unsupported"),
        ("25.3.0", "1.30", "old"),
        ("22.9.0", "1.25", "old"),
        ("26.7", "1.34", "unknown"),
        ("30.1.0", "1.34", "unknown"),
        (None, "1.34", "unknown"),
        ("26.7.0", None, "unknown"),
    ],
)
def test_operator_pairs(operator, cluster, state):
    """Validated by a line that is not at its end is ok."""
    assert matrix.judge_operator(operator, cluster).state == state
