"""A Kubernetes control plane on loopback: real API server, scheduler, controllers, etcd.

Nodes are kwok's: they have leases and become Ready as nodes do in life, and pods bound
to them "run" at once. Everything lives in one folder and ends with the context.
`tests/support/kube/build.sh` builds the binaries.
"""

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self

import kubernetes
import urllib3

from ctl import children, errors, ports

BUILD: Final = Path(__file__).parent / "kube" / "build.sh"
NEEDED: Final = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "etcd", "kwok")
VERSION: Final = "1.34.3"
RESTRICTED: Final = "windvane-processor"


def find_binaries() -> Path:
    """The folder with the control plane's binaries; raises `Unavailable` with what to run."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        missing = [name for name in NEEDED if not (Path(given) / name).exists()]
        if missing:
            raise errors.Unavailable(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(missing)}")
        return Path(given)
    where = subprocess.run([BUILD, "--where"], capture_output=True, text=True, check=True)
    folder = Path(where.stdout.strip())
    if not (folder / "complete").exists():
        raise errors.Unavailable("no Kubernetes control plane is built; run: make kube")
    return folder


class ControlPlane:
    """Use as a context; `core` is a CoreV1Api with all rights."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "admin.kubeconfig"
        self._bin = find_binaries()
        self._port = ports.free()
        self._tokens = {"admin": secrets.token_hex(16), RESTRICTED: secrets.token_hex(16)}
        self._children: list[children.Child] = []
        self.core: kubernetes.client.CoreV1Api

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._children):
            child.stop()

    def restricted_kubeconfig(self) -> Path:
        """A kubeconfig whose user may get, list, watch and patch nodes, and nothing else."""
        path = self.folder / "restricted.kubeconfig"
        if not path.exists():
            self._grant_nodes()
            self._write_kubeconfig(path, RESTRICTED)
        return path

    def create_gpu_node(
        self, name: str, gpus: int = 1, labels: Mapping[str, str] | None = None
    ) -> None:
        """A node that kwok keeps, with GPUs to give."""
        resources = {"cpu": "64", "memory": "256Gi", "pods": "250", "nvidia.com/gpu": str(gpus)}
        self.core.create_node(
            {
                "metadata": {
                    "name": name,
                    "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                },
                "status": {"capacity": resources, "allocatable": resources},
            }
        )

    def wait_ready(self, names: Iterable[str], timeout_s: float) -> None:
        """Until each node is Ready and carries no not-ready taint."""
        wanted = set(names)

        def ready() -> bool:
            nodes = self.core.list_node().items
            return wanted <= {n.metadata.name for n in nodes if _is_ready(n)}

        children.wait_until("nodes", ready, timeout_s=timeout_s, children=self._children)

    def create_gpu_pod(
        self, name: str, gpus: int = 1, tolerations: list[dict[str, Any]] | None = None
    ) -> None:
        """A pod that any node with a free GPU may take."""
        resources = {"nvidia.com/gpu": str(gpus), "cpu": "100m"}
        container = {
            "name": "c",
            "image": "none",
            "resources": {"requests": resources, "limits": {"nvidia.com/gpu": str(gpus)}},
        }
        self.core.create_namespaced_pod(
            "default",
            {
                "metadata": {"name": name},
                "spec": {"containers": [container], "tolerations": tolerations or []},
            },
        )

    def pod_node(self, name: str) -> str | None:
        """The node the scheduler chose, or None while it has not."""
        node: str | None = self.core.read_namespaced_pod(name, "default").spec.node_name
        return node

    def _start(self) -> None:
        self._make_keys()
        etcd_url = f"http://127.0.0.1:{ports.free()}"
        peer_url = f"http://127.0.0.1:{ports.free()}"
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={etcd_url}",
            f"--advertise-client-urls={etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
            "--unsafe-no-fsync",
            "--quota-backend-bytes=4294967296",
            "--auto-compaction-retention=5m",
        )
        self._run_api_server(etcd_url)
        self._write_kubeconfig(self.kubeconfig, "admin")
        client = kubernetes.config.new_client_from_config(str(self.kubeconfig))
        self.core = kubernetes.client.CoreV1Api(client)
        children.wait_until("API server", self._answers, timeout_s=60, children=self._children)
        self._run_controllers()
        with contextlib.suppress(kubernetes.client.ApiException):
            self.core.create_namespaced_service_account(
                "default", {"metadata": {"name": "default"}}
            )

    def _run_api_server(self, etcd_url: str) -> None:
        self._run(
            "kube-apiserver",
            f"--etcd-servers={etcd_url}",
            f"--secure-port={self._port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--tls-cert-file={self.folder / 'server.crt'}",
            f"--tls-private-key-file={self.folder / 'server.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://windvane.test",
            f"--service-account-key-file={self.folder / 'sa.key'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            "--enable-admission-plugins=NodeRestriction",
            "--endpoint-reconciler-type=none",
        )

    def _run_controllers(self) -> None:
        config = f"--kubeconfig={self.kubeconfig}"
        fast = ("--kube-api-qps=300", "--kube-api-burst=600", "--leader-elect=false")
        self._run(
            "kube-controller-manager",
            config,
            *fast,
            f"--secure-port={ports.free()}",
            "--bind-address=127.0.0.1",
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
            f"--root-ca-file={self.folder / 'server.crt'}",
            "--use-service-account-credentials=true",
            "--node-monitor-grace-period=180s",
        )
        self._run(
            "kube-scheduler",
            config,
            *fast,
            f"--secure-port={ports.free()}",
            "--bind-address=127.0.0.1",
        )
        self._run(
            "kwok",
            config,
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=40",
            "--cidr=10.244.0.0/16",
            "--node-ip=127.0.0.1",
            f"--server-address=127.0.0.1:{ports.free()}",
            f"--config={self._bin / 'stages.yaml'}",
        )

    def _run(self, name: str, *args: str) -> None:
        child = children.Child(name, [str(self._bin / name), *args], self.folder)
        child.start()
        self._children.append(child)

    def _answers(self) -> bool:
        try:
            return bool(self.core.read_namespace("default"))
        except (kubernetes.client.ApiException, urllib3.exceptions.HTTPError):
            return False

    def _make_keys(self) -> None:
        openssl = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]
        name = ["-subj", "/CN=windvane-test", "-addext", "subjectAltName=IP:127.0.0.1"]
        out = ["-keyout", str(self.folder / "server.key"), "-out", str(self.folder / "server.crt")]
        subprocess.run([*openssl, *name, *out], check=True, capture_output=True)
        sa_key = str(self.folder / "sa.key")
        subprocess.run(
            ["openssl", "genrsa", "-out", sa_key, "2048"], check=True, capture_output=True
        )
        lines = [
            f"{self._tokens['admin']},admin,1,system:masters",
            f"{self._tokens[RESTRICTED]},{RESTRICTED},2",
        ]
        (self.folder / "tokens.csv").write_text("\n".join(lines) + "\n")

    def _write_kubeconfig(self, path: Path, user: str) -> None:
        cluster = {
            "server": f"https://127.0.0.1:{self._port}",
            "certificate-authority": str(self.folder / "server.crt"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(config, indent=1))

    def _grant_nodes(self) -> None:
        rbac = kubernetes.client.RbacAuthorizationV1Api(self.core.api_client)
        rule = {
            "apiGroups": [""],
            "resources": ["nodes"],
            "verbs": ["get", "list", "watch", "patch"],
        }
        rbac.create_cluster_role({"metadata": {"name": RESTRICTED}, "rules": [rule]})
        rbac.create_cluster_role_binding(
            {
                "metadata": {"name": RESTRICTED},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": RESTRICTED,
                },
                "subjects": [
                    {"kind": "User", "name": RESTRICTED, "apiGroup": "rbac.authorization.k8s.io"}
                ],
            }
        )


def _is_ready(node: Any) -> bool:
    conditions = {c.type: c.status for c in node.status.conditions or ()}
    taints = {t.key for t in node.spec.taints or ()}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints
