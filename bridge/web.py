"""The page for supervisors: /healthz, /readyz and /metrics, on threads of its own.

Health is judged from facts that the bridge's loop writes down twice a second. A loop
that hangs writes nothing, and that is seen; so a dead inside cannot look well outside.
An idle bridge is healthy. Ready means: subscribed, Kafka connected, nothing stuck.
"""

import http.server
import json
import threading
import time
from typing import Any, Final
from urllib.parse import urlsplit

import prometheus_client

from bridge import config
from bridge.errors import PageUnusable
from bridge.forwarder import Facts

PULSE_S: Final = 0.5
PULSE_MISSED_S: Final = 10.0
READY_OLDEST_MS: Final = 10_000


class Health:
    """The latest facts, and what they mean."""

    def __init__(self, stalled_ms: int) -> None:
        self._stalled_ms = stalled_ms
        self._facts: Facts | None = None
        self._written_s = time.monotonic()

    def write(self, facts: Facts | None) -> None:
        """Facts as of now; None while Kafka is waited for at the start."""
        self._facts = facts
        self._written_s = time.monotonic()

    def problems(self) -> list[str]:
        """Why a supervisor should start us again; empty when it should not."""
        found = []
        silent_s = time.monotonic() - self._written_s
        if silent_s > PULSE_MISSED_S:
            found.append(f"the loop has stood still for {silent_s:.0f} s")
        facts = self._facts
        if facts is not None and facts.oldest_ms > self._stalled_ms:
            found.append(f"a message has waited for Kafka for {facts.oldest_ms // 1000} s")
        return found

    def missing(self) -> list[str]:
        """What is missing to be ready; empty when nothing is."""
        found = self.problems()
        facts = self._facts
        if facts is None:
            return [*found, "starting: Kafka's topics are not checked yet"]
        if not facts.is_linked:
            found.append("no subscription at the MQTT broker")
        if not facts.is_kafka_connected:
            found.append("no connection to Kafka")
        elif facts.oldest_ms > READY_OLDEST_MS:
            found.append("Kafka does not take messages")
        return found


class Page:
    """The server; `close` it."""

    def __init__(
        self, settings: config.Web, health: Health, registry: prometheus_client.CollectorRegistry
    ) -> None:
        handler = type("Handler", (_Handler,), {"health": health, "registry": registry})
        try:
            self._server = http.server.ThreadingHTTPServer((settings.host, settings.port), handler)
        except OSError as error:
            raise PageUnusable(
                f"web: cannot listen on {settings.host}:{settings.port}: {error.strerror or error}"
            ) from error
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="web", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=1.0)


class _Handler(http.server.BaseHTTPRequestHandler):
    health: Health
    registry: prometheus_client.CollectorRegistry
    timeout = 5

    def do_GET(self) -> None:
        match urlsplit(self.path).path:
            case "/healthz":
                self._judge(self.health.problems())
            case "/readyz":
                self._judge(self.health.missing())
            case "/metrics":
                body = prometheus_client.generate_latest(self.registry)
                self._answer(200, prometheus_client.CONTENT_TYPE_LATEST, body)
            case _:
                self._answer(404, "text/plain", b"/healthz /readyz /metrics\n")

    def _judge(self, problems: list[str]) -> None:
        body = json.dumps({"ok": not problems, "problems": problems}).encode()
        self._answer(503 if problems else 200, "application/json", body)

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""
