"""The pages, over HTTP, on Faust's own web application."""

import aiohttp.test_utils
import orjson
import prometheus_client as prom
import pytest

from cloud_processor import config
from cloud_processor.streams import engine
from cloud_processor.web import fleet, health, pages
from support import steering
from wire.codec import encode


@pytest.fixture
async def site():
    app = engine.faust_app(config.Settings(), 1)
    view = fleet.Fleet()
    state = health.Health(stall_s=30, now_s=0.0)
    registry = prom.CollectorRegistry()
    prom.Counter("windvane_processor_test", "For the test.", registry=registry).inc()
    pages.attach(
        app, view=view, state=state, registry=registry, now_ms=lambda: 2_000_000, now_s=lambda: 9.0
    )
    app.web.init_server()
    server = aiohttp.test_utils.TestServer(app.web.web_app)
    async with aiohttp.test_utils.TestClient(server) as client:
        client.view, client.state = view, state
        yield client


def put(view, verdict):
    view.take_verdict(f"{verdict.cluster}/{verdict.node}".encode(), encode(verdict), 0)


async def test_nodes_lists_the_fleet(site):
    """All that the table of a page needs, in one answer."""
    put(site.view, steering.verdict("edge-01"))

    answer = await site.get("/api/nodes")
    (row,) = orjson.loads(await answer.read())["nodes"]

    assert answer.status == 200
    assert answer.content_type == "application/json"
    wanted = {
        "cluster",
        "node",
        "pool",
        "load",
        "health",
        "thermal",
        "telemetry",
        "utilization_percent",
        "reasons",
        "freshness_ms",
        "intake",
        "taints",
        "last_outcome",
    }
    assert wanted <= row.keys()


async def test_one_node_in_full_and_an_unknown_one(site):
    """404 is JSON too."""
    put(site.view, steering.verdict("edge-01"))

    known = await site.get("/api/nodes/edge-01")
    unknown = await site.get("/api/nodes/edge-99")

    assert orjson.loads(await known.read())["verdict"]["node"] == "edge-01"
    assert unknown.status == 404
    assert "edge-99" in orjson.loads(await unknown.read())["error"]


async def test_a_name_in_two_clusters_asks_which(site):
    """409 names the clusters."""
    put(site.view, steering.verdict("edge-01", cluster="a"))
    put(site.view, steering.verdict("edge-01", cluster="b"))

    both = await site.get("/api/nodes/edge-01")
    one = await site.get("/api/nodes/edge-01?cluster=b")

    assert orjson.loads(await both.read())["clusters"] == ["a", "b"]
    assert orjson.loads(await one.read())["cluster"] == "b"


async def test_healthz_is_503_with_its_reason_until_all_is_well(site):
    """BR-91: a probe restarts what does not get on."""
    before = await site.get("/healthz")
    site.state.ready()
    after = await site.get("/healthz")

    assert before.status == 503
    assert "recovered" in orjson.loads(await before.read())["reason"]
    assert after.status == 200


async def test_metrics_are_ours_in_prometheus_text(site):
    """Not Faust's page of the same name."""
    answer = await site.get("/metrics")

    assert b"windvane_processor_test_total 1.0" in await answer.read()
