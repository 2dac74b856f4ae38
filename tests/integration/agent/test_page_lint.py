"""The page before Prometheus' own linter, the one of `promtool check metrics`."""

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from ctl import errors
from edge_agent import telemetry
from support import gpus, linting, server_fixtures

pytestmark = pytest.mark.integration

CAMEL_CASE = "label names should be written in 'snake_case' not 'camelCase'"


def findings(registry):
    """What the linter says; without Go a failure in CI and a skip elsewhere."""
    try:
        return linting.findings(generate_latest(registry))
    except errors.Unavailable as reason:
        server_fixtures.unavailable(reason)


@pytest.mark.parametrize("names", [(), ("kepler",)])
def test_nothing_is_found_on_our_page(names):
    """Neither in our names, nor in Kepler's."""
    assert findings(gpus.whole_page(*names)) == []


def test_nothing_is_found_in_the_agents_own_metrics():
    """Those of the spool and the delivery."""
    registry = CollectorRegistry()
    for metric in vars(telemetry.Metrics(registry)).values():
        metric.labels(*("x" for _ in metric._labelnames))
    found = findings(registry)

    assert generate_latest(registry).count(b'node="x"') > 20
    assert found == []


def test_dcgms_names_parse_and_break_one_rule_only():
    """Its label `modelName` is in camel case, and dashboards want it so."""
    found = findings(gpus.whole_page("dcgm"))

    assert {line.split(maxsplit=1)[1] for line in found} == {CAMEL_CASE}
    assert all(line.startswith("DCGM_") for line in found)


def test_the_linter_finds_something():
    """A page that breaks the rules does not pass."""
    bad = b"# HELP some_millis A name.\n# TYPE some_millis counter\nsome_millis 1\n"
    try:
        found = linting.findings(bad)
    except errors.Unavailable as reason:
        server_fixtures.unavailable(reason)

    assert any("_total" in line for line in found)
