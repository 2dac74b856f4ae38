"""The API server's nodes, read and patched; the only file that imports `kubernetes`.

Two classes, so that what may not write cannot: `NodeReader` lists, watches and gets;
`NodeWriter` also patches. Dry-run mode is given a reader and nothing else.

Objects stay plain dictionaries read by orjson: building the client's models of a node
with its images and conditions costs milliseconds each and none of it is used. Every
request has its own deadline and no hidden retry: the callers know what a failure of
theirs means. What goes wrong leaves as `Refused` (the server answered no) or
`Unreachable` (it did not answer).
"""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from cloud_processor import config, errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kubernetes import client as kube

REQUEST_TIMEOUT_S = (3.0, 5.0)
LIST_TIMEOUT_S = (3.0, 30.0)
LIST_PAGE_NODES = 500
MERGE_PATCH = "application/merge-patch+json"


class Refused(Exception):
    """The API server answered with a status that is not success."""

    def __init__(self, status: int, detail: str, retry_after_s: float | None) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.retry_after_s = retry_after_s


class Unreachable(Exception):
    """The API server did not answer in time, or not at all."""


class NodeReader:
    """Lists, watches and gets nodes."""

    def __init__(self, settings: config.Kube) -> None:
        self._settings = settings
        self._api = _core_api(settings)

    def rebuild(self) -> None:
        """A new client with credentials read afresh, after a 401."""
        self._api = _core_api(self._settings)

    def list(self) -> tuple[list[dict[str, Any]], str]:
        """All nodes, and the version to watch from."""
        items: list[dict[str, Any]] = []
        token: str | None = None
        while True:
            more = {"_continue": token} if token else {}
            page = self._json(
                self._api.list_node, limit=LIST_PAGE_NODES, _request_timeout=LIST_TIMEOUT_S, **more
            )
            items.extend(page.get("items") or [])
            token = page["metadata"].get("continue")
            if not token:
                return items, page["metadata"]["resourceVersion"]

    def watch(self, version: str, *, timeout_s: int) -> "Watch":
        """Changes after `version`; ends by itself after `timeout_s`."""
        response = self._call(
            self._api.list_node,
            watch=True,
            resource_version=version,
            allow_watch_bookmarks=True,
            timeout_seconds=timeout_s,
            _request_timeout=(REQUEST_TIMEOUT_S[0], timeout_s + 10.0),
        )
        return Watch(response)

    def get(self, name: str) -> dict[str, Any]:
        """One node as the server has it now."""
        return self._json(self._api.read_node, name, _request_timeout=REQUEST_TIMEOUT_S)

    def _json(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        response = self._call(method, *args, **kwargs)
        with _mapped():
            return orjson.loads(response.data)

    def _call(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        with _mapped():
            response = method(*args, _preload_content=False, **kwargs)
            if response.status >= 300:
                raise _refused(response.status, response.headers, response.data)
            return response


class NodeWriter(NodeReader):
    """A reader that may also patch."""

    def patch(self, name: str, body: "Mapping[str, Any]") -> dict[str, Any]:
        """One JSON merge patch; the node as it is afterwards."""
        patched: dict[str, Any] = self._json(
            self._api.patch_node,
            name,
            dict(body),
            field_manager="windvane",
            _content_type=MERGE_PATCH,
            _request_timeout=REQUEST_TIMEOUT_S,
        )
        return patched


class Watch:
    """Events of one watch request, as dictionaries; `close` ends it from any thread."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def __iter__(self) -> Iterator[dict[str, Any]]:
        rest = b""
        with _mapped():
            for chunk in self._response.stream(decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield orjson.loads(line)

    def close(self) -> None:
        # A reader in another thread is woken by shutdown, not by close.
        with contextlib.suppress(Exception):
            self._response.shutdown()


def check_credentials(reader: NodeReader) -> None:
    """Raise `KubeUnusable` when in-cluster calls would go out without a token.

    kubernetes 36.0.0 builds no Authorization header in-cluster and every call is then
    refused as anonymous; better to say so at the start.
    """
    api_client = reader._api.api_client  # noqa: SLF001 - our own class, same file
    header: dict[str, str] = {}
    api_client.update_params_for_auth(header, [], ["BearerToken"], "/", "GET", None)
    sent = {name.lower(): value for name, value in header.items()}.get("authorization", "")
    if not sent.lower().startswith("bearer "):
        raise errors.KubeUnusable(
            "kube: the kubernetes client would send no 'Authorization: Bearer' header; "
            "use a release other than 36.0.0 (locked: 37.0.2) and check the service account"
        )


def _core_api(settings: config.Kube) -> "kube.CoreV1Api":
    # Imported only when a cluster is used: the package takes 64 MB.
    from kubernetes import client as kube  # noqa: PLC0415
    from kubernetes import config as kube_config  # noqa: PLC0415

    configuration = kube.Configuration()
    try:
        if settings.mode == "in-cluster":
            kube_config.load_incluster_config(client_configuration=configuration)
        else:
            path = settings.kubeconfig or os.environ.get("KUBECONFIG") or None
            kube_config.load_kube_config(config_file=path, client_configuration=configuration)
    except kube_config.ConfigException as error:
        raise errors.KubeUnusable(f"kube.{settings.mode}: {error}") from error
    except OSError as error:
        raise errors.KubeUnusable(f"kube.{settings.mode}: {error}") from error
    configuration.retries = False
    configuration.connection_pool_maxsize = 16
    return kube.CoreV1Api(kube.ApiClient(configuration))


@contextlib.contextmanager
def _mapped() -> Iterator[None]:
    import urllib3.exceptions  # noqa: PLC0415 - comes with kubernetes
    from kubernetes.client import exceptions  # noqa: PLC0415

    try:
        yield
    except exceptions.ApiException as error:
        if not error.status:
            raise Unreachable(str(error.reason)) from error
        raise _refused(error.status, error.headers or {}, error.body or b"") from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unreachable(f"{type(error).__name__}: {error}") from error
    except orjson.JSONDecodeError as error:
        raise Unreachable(f"the answer was cut short: {error}") from error


def _refused(status: int, headers: Any, body: bytes | str) -> Refused:
    try:
        detail = orjson.loads(body).get("message") or ""
    except (orjson.JSONDecodeError, AttributeError):
        detail = str(body[:200])
    if status in {401, 403} and "system:anonymous" in detail:
        detail += " (the client sent no credentials)"
    try:
        retry_after_s = float(headers.get("Retry-After"))
    except (TypeError, ValueError):
        retry_after_s = None
    return Refused(status, detail, retry_after_s)
