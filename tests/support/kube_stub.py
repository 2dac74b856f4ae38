"""A little API server for nodes that can be told to fail: list, watch, get, merge patch.

It checks resourceVersions as the real one does. `script` puts answers before the real
ones, per method; `requests` is what was asked, so a test can count writes.
"""

import contextlib
import json
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, urlsplit


class Request(NamedTuple):
    method: str
    path: str
    body: Any
    headers: dict[str, str]
    at_s: float


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str] = MappingProxyType({})
    message: str = ""


class KubeStub:
    """Use as a context; `kubeconfig(folder)` for the client."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.requests: list[Request] = []
        self.scripted: dict[str, deque[Answer]] = defaultdict(deque)
        self.before_patch = lambda _name: None
        self.token: str | None = None
        self.oldest = 0
        self._version = 100
        self._watchers: list[queue.Queue[Any]] = []
        self._lock = threading.RLock()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        handler = type("Handler", (_Handler,), {"stub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        if self._server is None:
            return
        self.end_watches()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server = None

    def kubeconfig(self, folder: Path, token: str = "secret") -> Path:
        path = folder / "stub.kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "stub",
                    "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
                    "clusters": [
                        {"name": "stub", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
                    ],
                    "users": [{"name": "stub", "user": {"token": token}}],
                }
            )
        )
        return path

    def script(self, method: str, *answers: Answer) -> None:
        self.scripted[method].extend(answers)

    def put(self, name: str, *, labels=None, taints=None, unschedulable=False) -> None:
        with self._lock:
            old = self.nodes.get(name)
            self.nodes[name] = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": labels or {}, "annotations": {}},
                "spec": {"taints": taints or [], "unschedulable": unschedulable},
            }
            self._touched(name, "MODIFIED" if old else "ADDED")

    def change(self, name: str, changer: Any) -> None:
        with self._lock:
            changer(self.nodes[name])
            self._touched(name, "MODIFIED")

    def delete(self, name: str) -> None:
        with self._lock:
            self._version += 1
            gone = self.nodes.pop(name)
            gone["metadata"]["resourceVersion"] = str(self._version)
            self._say({"type": "DELETED", "object": gone})

    def expire(self) -> None:
        """All versions up to now are too old to watch from; running watches end with 410."""
        self.oldest = self._version + 1
        self._version += 2
        gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        self._say({"type": "ERROR", "object": gone})
        self.end_watches()

    def end_watches(self) -> None:
        self._say(None)

    def patches(self) -> list[Request]:
        return [r for r in self.requests if r.method == "PATCH"]

    def writes(self) -> list[Request]:
        return [r for r in self.requests if r.method not in {"GET", "WATCH"}]

    def taints(self, name: str) -> set[tuple[str, str, str]]:
        taints = self.nodes[name]["spec"].get("taints") or []
        return {(t["key"], t.get("value", ""), t["effect"]) for t in taints}

    def wait(self, what: Any, timeout_s: float = 5.0) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < deadline_s, "did not come true in time"
            time.sleep(0.01)

    def _touched(self, name: str, kind: str) -> None:
        self._version += 1
        node = self.nodes[name]
        node["metadata"]["resourceVersion"] = str(self._version)
        self._say({"type": kind, "object": json.loads(json.dumps(node))})

    def _say(self, event: Any) -> None:
        for watcher in list(self._watchers):
            watcher.put(event)

    def patch(self, name: str, body: dict[str, Any]) -> tuple[int, Any]:
        with self._lock:
            node = self.nodes.get(name)
            if node is None:
                return 404, _status(404, f'nodes "{name}" not found')
            given = body.get("metadata", {}).get("resourceVersion")
            if given is not None and given != node["metadata"]["resourceVersion"]:
                return 409, _status(409, "the object has been modified")
            _merge(node, body)
            self._touched(name, "MODIFIED")
            return 200, node


class _Handler(BaseHTTPRequestHandler):
    stub: KubeStub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._handle("GET")

    def do_PATCH(self) -> None:
        self._handle("PATCH")

    def do_POST(self) -> None:
        self._handle("POST")

    def do_PUT(self) -> None:
        self._handle("PUT")

    def do_DELETE(self) -> None:
        self._handle("DELETE")

    def log_message(self, *_: Any) -> None:
        pass

    def _handle(self, method: str) -> None:  # noqa: PLR0911 - one answer a line
        stub = self.stub
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        kind = "WATCH" if "watch" in query else method
        stub.requests.append(Request(kind, self.path, body, dict(self.headers), time.monotonic()))
        if stub.token and self.headers.get("Authorization", "").lower() != f"bearer {stub.token}":
            return self._send(401, _status(401, "Unauthorized"))
        if stub.scripted[kind]:
            answer = stub.scripted[kind].popleft()
            return self._send(answer.status, _status(answer.status, answer.message), answer.headers)
        name = url.path.removeprefix("/api/v1/nodes").strip("/")
        if kind == "WATCH":
            return self._watch(int(query["resourceVersion"][0]))
        if method == "PATCH":
            stub.before_patch(name)
            return self._send(*stub.patch(name, body))
        if method != "GET":
            return self._send(405, _status(405, "not here"))
        with stub._lock:
            if name:
                found = stub.nodes.get(name)
                missing = _status(404, f'nodes "{name}" not found')
                return self._send(200 if found else 404, found or missing)
            items = list(stub.nodes.values())
            metadata = {"resourceVersion": str(stub._version)}
            return self._send(200, {"kind": "NodeList", "metadata": metadata, "items": items})

    def _send(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for key, text in (headers or {}).items():
            self.send_header(key, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _watch(self, version: int) -> None:
        stub = self.stub
        if version < stub.oldest:
            return self._send(410, _status(410, "too old resource version"))
        events: queue.Queue[Any] = queue.Queue()
        with stub._lock:
            for node in stub.nodes.values():
                if int(node["metadata"]["resourceVersion"]) > version:
                    events.put({"type": "MODIFIED", "object": node})
            stub._watchers.append(events)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            while (event := events.get()) is not None:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        stub._watchers.remove(events)
        return None


def _status(code: int, message: str) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "message": message}


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value
