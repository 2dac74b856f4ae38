"""Fixtures for real servers, and the report of which ones were used.

A server that is missing on this machine is a failure in CI and a skip, with its reason,
elsewhere.
"""

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from ctl import errors, servers, topics

PARTITIONS = 4
USED: Counter[str] = Counter()


def unavailable(reason: errors.Unavailable) -> None:
    """Fail in CI, skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(str(reason))
    pytest.skip(str(reason))


@pytest.fixture(scope="session")
def servers_or_skip() -> None:
    """The embedded servers are on this machine."""
    try:
        for name, version in servers.versions().items():
            USED[f"{name} {version}"] += 0
        servers.find("java", "default-jre-headless")
    except errors.Unavailable as reason:
        unavailable(reason)


@pytest.fixture
def mosquitto(
    servers_or_skip: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[servers.Mosquitto]:
    """A broker of the test's own; it may be killed and started again."""
    with servers.Mosquitto(tmp_path_factory.mktemp("mqtt")) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(
    servers_or_skip: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[servers.Kafka]:
    """One Kafka for all tests that do not kill it, with our topics."""
    with servers.Kafka(tmp_path_factory.mktemp("kafka")) as log:
        topics.create(log.bootstrap, PARTITIONS)
        yield log


@pytest.fixture
def own_kafka(
    servers_or_skip: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[servers.Kafka]:
    """A Kafka of the test's own, with our topics; it may be killed and started again."""
    with servers.Kafka(tmp_path_factory.mktemp("own-kafka")) as log:
        topics.create(log.bootstrap, PARTITIONS)
        yield log


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count which tests ran on real servers."""
    if report.when == "call" and not report.skipped:
        for kind in ("integration", "e2e"):
            if kind in report.keywords:
                USED[f"tests of kind {kind}"] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests ran against which real servers."""
    counts = {k: n for k, n in USED.items() if k.startswith("tests of kind")}
    if not counts:
        return
    terminalreporter.section("real servers")
    for name in USED:
        terminalreporter.line(name if name not in counts else f"{counts[name]} {name}")
