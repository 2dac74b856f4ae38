"""Building the client: credentials, and clear words when they are missing."""

import pytest

from cloud_processor import config, errors
from cloud_processor.kube import client

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def in_cluster(tmp_path, monkeypatch):
    """The files and variables that a pod finds."""
    from kubernetes.config import incluster_config

    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("tok-a")
    authority.write_text("certificate")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setattr("kubernetes.client.ApiClient", _without_tls())
    return token


def _without_tls():
    from kubernetes import client as kube

    class ApiClient(kube.ApiClient):
        def __init__(self, configuration):
            configuration.ssl_ca_cert = None
            super().__init__(configuration)

    return ApiClient


def test_in_cluster_calls_carry_the_token(in_cluster):
    """BR-106: the start-up check passes with the locked client."""
    client.check_credentials(client.NodeReader(config.Kube(mode="in-cluster")))


def test_a_client_without_auth_header_is_refused_at_the_start(in_cluster, monkeypatch):
    """BR-106: kubernetes 36.0.0 sends none; the message names the release."""
    reader = client.NodeReader(config.Kube(mode="in-cluster"))
    monkeypatch.setattr(reader._api.api_client, "update_params_for_auth", lambda *_, **__: None)

    with pytest.raises(errors.KubeUnusable, match=r"36\.0\.0"):
        client.check_credentials(reader)


def test_a_rebuilt_client_reads_the_rotated_token(in_cluster):
    """BR-105: after a 401 the token is read from its file again."""
    reader = client.NodeReader(config.Kube(mode="in-cluster"))
    in_cluster.write_text("tok-b")

    reader.rebuild()

    header = {}
    reader._api.api_client.update_params_for_auth(header, [], ["BearerToken"], "/", "GET", None)
    assert list(header.values()) == ["bearer tok-b"]


def test_a_missing_kubeconfig_is_one_clear_line(tmp_path):
    """The path is in the message, and it is ours, not the library's exception."""
    settings = config.Kube(mode="kubeconfig", kubeconfig=str(tmp_path / "none"))

    with pytest.raises(errors.KubeUnusable, match=r"kube\.kubeconfig"):
        client.NodeReader(settings)


def test_nobody_listening_is_unreachable(tmp_path):
    """Connection refused leaves as our word, at once and without hidden retries."""
    from support.kube_stub import KubeStub

    with KubeStub() as stub:
        path = stub.kubeconfig(tmp_path)
    reader = client.NodeReader(config.Kube(mode="kubeconfig", kubeconfig=str(path)))

    with pytest.raises(client.Unreachable):
        reader.get("edge-01")
