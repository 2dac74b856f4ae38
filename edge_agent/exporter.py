"""The agent's Prometheus page, made when it is asked for, in the server's own thread.

Nothing is kept between two pages but what is known of each node, so a GPU that is gone is
gone from the page, and a value that is unknown is absent rather than zero. Prometheus says
whether it wants OpenMetrics or the classic text. Under other paths a question about the
agent may be answered in a line: an empty answer is 200, trouble is 503.
"""

import contextlib
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from wsgiref import simple_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric

from edge_agent import config
from edge_agent.core import aliases, exposition, nodeview, page
from edge_agent.errors import ExporterError
from wire.sample import Event, GpuInventory, Sample

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

Question = Callable[[], str]

POLL_S: Final = 5.0  # each look costs CPU time and shows nothing but that we are to end
REQUEST_TIMEOUT_S: Final = 10.0
NO_QUESTIONS: Final[Mapping[str, Question]] = MappingProxyType({})
SUFFIXES: Final = {"counter": "_total", "info": "_info"}


def _now_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class Latest:
    """What is known of each node; a collector of prometheus_client.

    `now_ms` is a clock that also runs while the machine sleeps.
    """

    def __init__(self, names: Iterable[str] = (), now_ms: Callable[[], int] = _now_ms) -> None:
        self._names = tuple(names)
        self._now_ms = now_ms
        self._views: dict[tuple[str, str], nodeview.NodeView] = {}

    def put(self, cluster: str, node: str, sample: Sample) -> None:
        """Remember the latest sample of a node."""
        charges = "kepler" in self._names
        view = nodeview.with_sample(
            self._view(cluster, node), sample, self._now_ms(), charges=charges
        )
        self._views[cluster, node] = view

    def event(self, cluster: str, node: str, event: Event) -> None:
        """Count an event of a node."""
        self._views[cluster, node] = nodeview.with_event(self._view(cluster, node), event)

    def inventory(
        self,
        cluster: str,
        node: str,
        gpus: tuple[GpuInventory, ...],
        driver_version: str | None,
    ) -> None:
        """Remember what does not change about a node's GPUs."""
        view = self._view(cluster, node)
        self._views[cluster, node] = nodeview.with_inventory(view, gpus, driver_version)

    def forget(self, cluster: str, node: str) -> None:
        """Say nothing of this node any more."""
        self._views.pop((cluster, node), None)

    def collect(self) -> Iterable[Metric]:
        """The page."""
        views, now_ms = dict(self._views), self._now_ms()
        ours = exposition.families(views, now_ms)
        theirs = aliases.families(self._names, views, now_ms)
        return [_metric(family) for family in (*ours, *theirs)]

    def _view(self, cluster: str, node: str) -> nodeview.NodeView:
        return self._views.get((cluster, node)) or nodeview.NodeView()


def _metric(family: page.Family) -> Metric:
    name = family.metric.removesuffix(SUFFIXES.get(family.kind, ""))
    metric = Metric(name, family.text, family.kind)
    for values, number in family.rows.items():
        labels = {name: text for name, text in zip(family.labels, values, strict=True) if text}
        metric.add_sample(family.metric, labels, number)
    return metric


class Exporter:
    """The page on its port, and an answer to each of `questions` by its path."""

    def __init__(
        self,
        settings: config.Exporter,
        registry: CollectorRegistry,
        questions: Mapping[str, Question] = NO_QUESTIONS,
    ) -> None:
        try:
            family, *_, address = socket.getaddrinfo(
                settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._server = _Server(family, address[:2])
        except OSError as error:
            raise ExporterError(
                f"exporter: cannot listen on {settings.host}:{settings.port}: {error}"
            ) from error
        self._server.set_app(_with_questions(make_wsgi_app(registry), questions))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="exporter", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving. A last visitor of our own wakes the server, which looks up rarely."""
        ending = threading.Thread(target=self._server.shutdown, daemon=True)
        ending.start()
        with contextlib.suppress(OSError):
            socket.create_connection(self._server.server_address[:2], timeout=1.0).close()
        ending.join(timeout=POLL_S)
        self._server.server_close()


class _Handler(simple_server.WSGIRequestHandler):
    """Says nothing, and does not wait for ever for a client that stalls."""

    timeout = REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
        """Leave requests out of the log."""


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """One thread for each request, so that a slow one keeps nobody waiting."""

    daemon_threads = True

    def __init__(self, family: socket.AddressFamily, address: tuple[Any, ...]) -> None:
        self.address_family = family
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Bind without asking a name server for our own name, which could take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]
        self.setup_environ()


def _with_questions(page_app: Any, questions: Mapping[str, Question]) -> Any:
    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        question = questions.get(environ.get("PATH_INFO", ""))
        if question is None:
            return page_app(environ, start_response)
        trouble = question()
        status = "503 Service Unavailable" if trouble else "200 OK"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{trouble or 'ok'}\n".encode()]

    return answer
