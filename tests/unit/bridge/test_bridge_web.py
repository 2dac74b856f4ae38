"""Health as a supervisor sees it."""

import json
import urllib.error
import urllib.request

import prometheus_client
import pytest

from bridge import config, errors, web
from bridge.forwarder import Facts

GOOD = Facts(is_linked=True, is_kafka_connected=True, open_count=0, oldest_ms=0)


def test_idle_but_connected_is_healthy_and_ready() -> None:
    """BR-83: a bridge with nothing to do stays healthy."""
    health = web.Health(90_000)
    health.write(GOOD)

    assert health.problems() == []
    assert health.missing() == []


def test_starting_is_healthy_and_not_ready() -> None:
    """While Kafka is waited for, nobody should restart us or count on us."""
    health = web.Health(90_000)
    health.write(None)

    assert health.problems() == []
    assert health.missing() != []


@pytest.mark.parametrize(
    "facts",
    [
        Facts(is_linked=False, is_kafka_connected=True, open_count=0, oldest_ms=0),
        Facts(is_linked=True, is_kafka_connected=False, open_count=0, oldest_ms=0),
        Facts(is_linked=True, is_kafka_connected=True, open_count=1, oldest_ms=10_001),
    ],
)
def test_not_ready(facts: Facts) -> None:
    """A link that is down, or records that do not move, make it not ready, not unhealthy."""
    health = web.Health(90_000)
    health.write(facts)

    assert health.problems() == []
    assert len(health.missing()) == 1


def test_no_progress_is_unhealthy() -> None:
    """BR-80, BR-83: a message that Kafka does not take for too long fails liveness."""
    health = web.Health(90_000)
    health.write(Facts(is_linked=True, is_kafka_connected=True, open_count=1, oldest_ms=90_001))

    assert len(health.problems()) == 1


def test_a_loop_that_stands_still_is_unhealthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """BR-83: health is tied to the loop's own progress."""
    health = web.Health(90_000)
    health.write(GOOD)
    monkeypatch.setattr(web, "PULSE_MISSED_S", -1.0)

    assert "stood still" in health.problems()[0]


def test_pages() -> None:
    """/healthz, /readyz and /metrics answer; the port is free again afterwards."""
    health = web.Health(90_000)
    health.write(None)
    page = web.Page(config.Web(port=0), health, prometheus_client.CollectorRegistry())

    def get(path: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page.port}{path}") as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    try:
        assert get("/healthz")[0] == 200
        status, body = get("/readyz")
        assert (status, json.loads(body)["ok"]) == (503, False)
        assert get("/metrics")[0] == 200
        assert get("/other")[0] == 404
        with pytest.raises(errors.PageUnusable):
            web.Page(config.Web(port=page.port), health, prometheus_client.CollectorRegistry())
    finally:
        page.close()
