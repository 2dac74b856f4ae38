"""The policy: data, checked as a whole."""

import pytest

from cloud_processor.core import policy
from wire import settings


def test_an_empty_table_is_the_default_policy():
    """Every field has a default that may be shipped."""
    assert policy.Policy() == policy.parse({})


def test_all_problems_are_told_at_once():
    """A person who made six mistakes learns of six."""
    table = {
        "domain": "!",
        "colour": "blue",
        "load": {"enter_percent": [5, 30, 20, 90]},
        "health": {"xid": {"seventy": "fatal"}},
        "telemetry": {"stale_ms": 5000, "lost_ms": 5000},
        "budget": {"hard": {"share_max": 1.5}},
    }

    with pytest.raises(settings.Problems) as caught:
        policy.parse(table)

    lines = "\n".join(caught.value.lines)
    assert len(caught.value.lines) == 6
    for place in ("domain", "colour", "load", "health", "telemetry", "budget.hard.share_max"):
        assert place in lines


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"load": {"enter_percent": [5, 5, 70, 90]}}, "must ascend"),
        ({"load": {"leave_percent": [3, 25, 60, 90]}}, "saturated: leave_percent 90"),
        ({"health": {"dwell_ms": 10, "dwell_max_ms": 9}}, "dwell_max_ms 9"),
        ({"health": {"xid": {"79x": "fatal"}}}, "an XID is a number"),
        ({"telemetry": {"stale_ms": 9, "lost_ms": 9}}, "lost_ms 9 must be above"),
    ],
)
def test_what_does_not_fit_together_is_refused(table, words):
    """Each number may be right and both together wrong."""
    with pytest.raises(settings.Problems, match=words):
        policy.parse(table)


def test_a_policy_overrides_the_catalogue_by_code():
    """BR-30: the table is configuration; unknown codes follow the configured default."""
    rules = policy.parse(
        {"health": {"xid": {"79": "ignore", "31": "fatal"}, "unknown_xid": "fatal"}}
    )

    assert [policy.severity_of(rules, code) for code in (79, 31, 999, 13)] == [
        "ignore",
        "fatal",
        "fatal",
        "ignore",
    ]
    assert policy.severity_of(policy.Policy(), 999) == "degraded"


def test_the_first_rule_that_fits_names_the_pool():
    """Rules are asked in order, all their labels must be there, and the rest is `default`."""
    rules = policy.parse(
        {
            "pools": [
                {"name": "h100", "labels": {"gpu": "h100", "site": "a"}},
                {"name": "site-a", "labels": {"site": "a"}},
            ]
        }
    )

    assert policy.pool_of(rules, {"gpu": "h100", "site": "a"}) == "h100"
    assert policy.pool_of(rules, {"gpu": "l4", "site": "a"}) == "site-a"
    assert policy.pool_of(rules, {"gpu": "h100"}) == "default"
