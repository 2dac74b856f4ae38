"""Who may do what in the control plane of the tests.

The API server's certificate is its own authority, the service accounts have one key, and
every user is a token: `admin` may do all, `windvane-processor` only what the processor is
granted on a real cluster.
"""

import json
import secrets
import subprocess
from pathlib import Path
from typing import Final

import kubernetes

ADMIN: Final = "admin"
RESTRICTED: Final = "windvane-processor"
_RBAC: Final = "rbac.authorization.k8s.io"


class Identities:
    """Keys, tokens and kubeconfigs in one folder."""

    def __init__(self, folder: Path, server: str) -> None:
        self.server_cert = folder / "server.crt"
        self.server_key = folder / "server.key"
        self.account_key = folder / "sa.key"
        self.tokens = folder / "tokens.csv"
        self._folder = folder
        self._server = server
        self._token_of = {ADMIN: secrets.token_hex(16), RESTRICTED: secrets.token_hex(16)}

    def make(self) -> None:
        """Write the keys, the certificate and the token file; needs `openssl`."""
        _openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"),
            *("-subj", "/CN=windvane-test", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(self.server_key), "-out", str(self.server_cert)),
        )
        _openssl("genrsa", "-out", str(self.account_key), "2048")
        self.tokens.write_text(
            f"{self._token_of[ADMIN]},{ADMIN},1,system:masters\n"
            f"{self._token_of[RESTRICTED]},{RESTRICTED},2\n"
        )

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of `user`, written when first asked for."""
        path = self._folder / f"{user}.kubeconfig"
        cluster = {"server": self._server, "certificate-authority": str(self.server_cert)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self._token_of[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        if not path.exists():
            path.write_text(json.dumps(config, indent=1))
        return path


def grant_nodes(client: kubernetes.client.ApiClient, user: str) -> None:
    """Let `user` get, list, watch and patch nodes, and nothing else."""
    rbac = kubernetes.client.RbacAuthorizationV1Api(client)
    verbs = ["get", "list", "watch", "patch"]
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": verbs}
    rbac.create_cluster_role({"metadata": {"name": user}, "rules": [rule]})
    rbac.create_cluster_role_binding(
        {
            "metadata": {"name": user},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
        }
    )


def _openssl(*args: str) -> None:
    subprocess.run(["openssl", *args], check=True, capture_output=True)
