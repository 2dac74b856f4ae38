"""A Kubernetes control plane on loopback: real API server, scheduler, controllers, etcd.

Nodes are kwok's: they have leases and become Ready as nodes do in life, and pods bound
to them "run" at once. Everything lives in one folder and ends with the context.
`tests/support/kube/build.sh` builds the binaries.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self

import kubernetes
import urllib3

from ctl import children, errors, ports
from support.kube import health, identities

BUILD: Final = Path(__file__).parent / "kube" / "build.sh"
STAGES: Final = "stages.yaml"  # what kwok's nodes and pods do, taken from its module
NEEDED: Final = (
    *("kube-apiserver", "kube-scheduler", "kube-controller-manager", "etcd", "kwok"),
    STAGES,
)
VERSION: Final = "1.34.3"  # what build.sh builds; a plane's own is `ControlPlane.version`


def find_binaries() -> Path:
    """The folder with the control plane's binaries; raises `Unavailable` with what to run."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        missing = [name for name in NEEDED if not (Path(given) / name).exists()]
        if missing:
            raise errors.Unavailable(
                f"KUBEBUILDER_ASSETS={given} lacks {', '.join(missing)}; "
                "add them, or unset it and run: make kube"
            )
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
        self._bin = find_binaries()
        self._port = ports.free()
        self._who = identities.Identities(folder, f"https://127.0.0.1:{self._port}")
        self._granted = False
        self._health_urls: list[str] = []
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

    @property
    def kubeconfig(self) -> Path:
        """Of a user with all rights."""
        return self._who.kubeconfig(identities.ADMIN)

    @property
    def version(self) -> str:
        """What the running API server says it is, without the v."""
        told = kubernetes.client.VersionApi(self.core.api_client).get_code()
        return str(told.git_version).removeprefix("v")

    def restricted_kubeconfig(self) -> Path:
        """A kubeconfig whose user may get, list, watch and patch nodes, and nothing else."""
        if not self._granted:
            identities.grant_nodes(self.core.api_client, identities.RESTRICTED)
            self._granted = True
        return self._who.kubeconfig(identities.RESTRICTED)

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
            return wanted <= {n.metadata.name for n in nodes if health.node_is_ready(n)}

        children.wait_until("nodes", ready, timeout_s=timeout_s, children=self._children)

    def create_gpu_pod(
        self,
        name: str,
        gpus: int = 1,
        tolerations: list[dict[str, Any]] | None = None,
        namespace: str = "default",
    ) -> None:
        """A pod that any node with a free GPU may take."""
        resources = {"nvidia.com/gpu": str(gpus), "cpu": "100m"}
        container = {
            "name": "c",
            "image": "none",
            "resources": {"requests": resources, "limits": {"nvidia.com/gpu": str(gpus)}},
        }
        self.core.create_namespaced_pod(
            namespace,
            {
                "metadata": {"name": name},
                "spec": {"containers": [container], "tolerations": tolerations or []},
            },
        )

    def pod_node(self, name: str, namespace: str = "default") -> str | None:
        """The node the scheduler chose, or None while it has not."""
        node: str | None = self.core.read_namespaced_pod(name, namespace).spec.node_name
        return node

    def wait_bound(self, name: str, timeout_s: float, namespace: str = "default") -> str:
        """The node the scheduler chose; raises `CtlError` when it has chosen none in time."""
        children.wait_until(
            f"binding of pod {name}",
            lambda: bool(self.pod_node(name, namespace)),
            timeout_s=timeout_s,
            children=self._children,
        )
        return str(self.pod_node(name, namespace))

    def _start(self) -> None:
        self._who.make()
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
        client = kubernetes.config.new_client_from_config(str(self.kubeconfig))
        self.core = kubernetes.client.CoreV1Api(client)
        children.wait_until("API server", self._answers, timeout_s=60, children=self._children)
        self._run_controllers()
        children.wait_until("controllers", self._healthy, timeout_s=60, children=self._children)
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
            f"--tls-cert-file={self._who.server_cert}",
            f"--tls-private-key-file={self._who.server_key}",
            f"--token-auth-file={self._who.tokens}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://windvane.test",
            f"--service-account-key-file={self._who.account_key}",
            f"--service-account-signing-key-file={self._who.account_key}",
            "--enable-admission-plugins=NodeRestriction",
            "--endpoint-reconciler-type=none",
        )

    def _run_controllers(self) -> None:
        config = f"--kubeconfig={self.kubeconfig}"
        both = (config, "--bind-address=127.0.0.1", "--leader-elect=false")
        fast = ("--kube-api-qps=300", "--kube-api-burst=600")
        self._run(
            "kube-controller-manager",
            *both,
            *fast,
            self._serving("--secure-port=", "https"),
            f"--service-account-private-key-file={self._who.account_key}",
            f"--root-ca-file={self._who.server_cert}",
            "--use-service-account-credentials=true",
            "--node-monitor-grace-period=180s",
        )
        serving = self._serving("--secure-port=", "https")
        self._run("kube-scheduler", *both, *fast, serving)
        self._run(
            "kwok",
            config,
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=40",
            "--cidr=10.244.0.0/16",
            "--node-ip=127.0.0.1",
            self._serving("--server-address=127.0.0.1:", "http"),
            f"--config={self._bin / STAGES}",
        )

    def _serving(self, flag: str, scheme: str) -> str:
        port = ports.free()
        self._health_urls.append(f"{scheme}://127.0.0.1:{port}/healthz")
        return f"{flag}{port}"

    def _run(self, name: str, *args: str) -> None:
        child = children.Child(name, [str(self._bin / name), *args], self.folder)
        child.start()
        self._children.append(child)

    def _answers(self) -> bool:
        try:
            return bool(self.core.read_namespace("default"))
        except (kubernetes.client.ApiException, urllib3.exceptions.HTTPError):
            return False

    def _healthy(self) -> bool:
        while self._health_urls and health.program_is_well(self._health_urls[0]):
            self._health_urls.pop(0)
        return not self._health_urls
