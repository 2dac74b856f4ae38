"""The JSON API on Faust's own web server: `/api/nodes`, `/healthz`, `/metrics`."""

import time
from collections.abc import Callable
from typing import Any

import orjson
import prometheus_client as prom

from cloud_processor.web import fleet, health

JSON = "application/json"


def attach(
    app: Any,
    *,
    view: fleet.Fleet,
    state: health.Health,
    registry: prom.CollectorRegistry,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    now_s: Callable[[], float] = time.monotonic,
) -> None:
    """Put our pages on the app's web server."""

    @app.page("/api/nodes", name="nodes")
    async def nodes(web: Any, _request: Any) -> Any:
        return _json(web, {"nodes": view.rows(now_ms())})

    @app.page("/api/nodes/{name}", name="node")
    async def node(web: Any, request: Any, *, name: str) -> Any:
        found = view.find(name, request.query.get("cluster"))
        if not found:
            return _json(web, {"error": f"no verdict on a node {name!r}"}, status=404)
        if len(found) > 1:
            clusters = sorted(seen.cluster for seen in found)
            problem = "this name is in several clusters: add ?cluster="
            return _json(web, {"error": problem, "clusters": clusters}, status=409)
        return _json(web, view.detail(found[0], now_ms()))

    @app.page("/healthz", name="healthz")
    async def healthz(web: Any, _request: Any) -> Any:
        problem = state.problem(now_s())
        if problem is not None:
            return _json(web, {"ok": False, "reason": problem}, status=503)
        return _json(web, {"ok": True, "lag": state.lag_by_topic()})

    @app.page("/metrics", name="metrics")
    async def metrics(web: Any, _request: Any) -> Any:
        return web.bytes(prom.generate_latest(registry), content_type="text/plain")


def _json(web: Any, value: Any, *, status: int = 200) -> Any:
    return web.bytes(orjson.dumps(value), content_type=JSON, status=status)
