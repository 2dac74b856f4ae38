"""The real programs, wired to given servers: for the demo, the end-to-end tests, the benches.

Each program is a process with a TOML file of its own in the pipeline's folder, exactly
as a person would run it. Stopping goes against the flow of the data: agents first, so
that what they sent is carried to its end.
"""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ctl import children, errors, ports

Table = Mapping[str, Any]

AGENT: Final = "edge_agent"
BRIDGE: Final = "bridge"
PROCESSOR: Final = "cloud_processor"


def toml(table: Table) -> str:
    """TOML of a table with scalars, arrays and one level of tables; tables last."""
    lines = [f"{k} = {json.dumps(v)}" for k, v in table.items() if not isinstance(v, Mapping)]
    for name, value in table.items():
        if isinstance(value, Mapping):
            lines += _group(name, value)
    return "\n".join(lines) + "\n"


def _group(name: str, table: Table) -> list[str]:
    lines = [f"\n[{name}]"]
    lines += [f"{k} = {json.dumps(v)}" for k, v in table.items() if not isinstance(v, Mapping)]
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _group(f"{name}.{key}", value)
    return lines


class Pipeline:
    """Bridge, processors and agents on one MQTT broker and one Kafka.

    `folder` takes everything: configuration, logs, spools, tables. Programs are started
    one by one (`start_bridge`, `start_processor`, `start_agents`) and may be stopped and
    killed by name through `programs`.
    """

    def __init__(
        self, folder: Path, *, mqtt_port: int, bootstrap: str, partitions: int, cluster: str
    ) -> None:
        self.folder = folder
        self.cluster = cluster
        self.bootstrap = bootstrap
        self.control_file = folder / "faults.jsonl"
        self.control_file.touch()
        self.programs: dict[str, children.Child] = {}
        self.api_ports: list[int] = []
        self._mqtt: Table = {"host": "127.0.0.1", "port": mqtt_port}
        self._kafka: Table = {"bootstrap": bootstrap, "partitions": partitions}

    def start_bridge(self, name: str = "bridge", **groups: Table) -> children.Child:
        """A bridge whose readiness page says ready."""
        port = ports.free()
        child = self._start(
            name,
            BRIDGE,
            {
                "mqtt": {**self._mqtt, "client_id": f"windvane-{name}", **groups.get("mqtt", {})},
                "kafka": {**self._kafka, **groups.get("kafka", {})},
                "confirm": {"interval_ms": 1000, **groups.get("confirm", {})},
                "web": {"host": "127.0.0.1", "port": port},
            },
        )
        self._wait_for(child, port, "/readyz")
        return child

    def start_processor(
        self,
        name: str = "processor",
        *,
        kube: Table | None = None,
        policy: Table | None = None,
        state: Table | None = None,
    ) -> children.Child:
        """A processor whose health page says well; its API port joins `api_ports`."""
        port = ports.free()
        child = self._start(
            name,
            PROCESSOR,
            {
                "data_dir": str(self.folder / name),
                "kafka": self._kafka,
                "web": {"host": "127.0.0.1", "port": port},
                "kube": kube or {"mode": "off"},
                "state": state or {},
                "policy": policy or {},
            },
        )
        self._wait_for(child, port, "/healthz")
        self.api_ports.append(port)
        return child

    def start_agents(
        self,
        name: str = "agents",
        *,
        count: int = 0,
        first: int = 1,
        mqtt_port: int | None = None,
        source: Table | None = None,
        environment: Mapping[str, str] | None = None,
        **top: Any,
    ) -> children.Child:
        """One process with `count` agents named edge-01 … (or from `first` on), or with one
        agent named `node`.
        """
        return self._start(
            name,
            AGENT,
            {
                "cluster": self.cluster,
                "spool_dir": str(self.folder / name),
                "fleet": {"count": count, "prefix": "edge-", "first": first},
                "mqtt": {**self._mqtt, **({"port": mqtt_port} if mqtt_port else {})},
                "exporter": {"port": ports.free()},
                "source": {"kind": "simulated"},
                "simulated": {"seed": 7, "control_file": str(self.control_file)},
                **(source or {}),
                **top,
            },
            environment,
        )

    def fault(self, **command: Any) -> None:
        """Tell the simulated nodes of a fault, as the line says (see the simulated source)."""
        with self.control_file.open("a") as file:
            file.write(json.dumps(command) + "\n")

    def get(self, path: str) -> Any:
        """JSON from the first processor's API; None when it does not answer or knows nothing."""
        return fetch(self.api_ports[0], path)

    def nodes(self) -> dict[str, dict[str, Any]]:
        """What `/api/nodes` says, by node name."""
        answer = self.get("/api/nodes")
        return {n["node"]: n for n in (answer or {}).get("nodes", ())}

    def must_run(self) -> None:
        """Raise if any program has ended by itself."""
        for child in self.programs.values():
            child.must_run()

    def clear_nodes(self, name: str = "processor") -> None:
        """Take what a stopped processor has put on nodes off again; raises when it cannot."""
        argv = [sys.executable, "-m", PROCESSOR, "--config", str(self.folder / f"{name}.toml")]
        done = subprocess.run([*argv, "--clear"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise errors.CtlError(f"labels and taints are still on the nodes: {done.stderr}")

    def stop(self) -> dict[str, int | None]:
        """End all, last started first; exit codes by name."""
        return {name: self.programs[name].stop() for name in reversed(self.programs)}

    def _start(
        self, name: str, module: str, config: Table, environment: Mapping[str, str] | None = None
    ) -> children.Child:
        path = self.folder / f"{name}.toml"
        path.write_text(toml(config))
        argv = [sys.executable, "-m", module, "--config", str(path)]
        child = children.Child(name, argv, self.folder, environment)
        child.start()
        self.programs[name] = child
        return child

    def _wait_for(self, child: children.Child, port: int, path: str) -> None:
        children.wait_until(
            f"{child.name} ({path})",
            lambda: answers(port, path),
            timeout_s=60,
            children=[child],
        )


def answers(port: int, path: str) -> bool:
    """Whether a page on loopback answers 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def fetch(port: int, path: str) -> Any:
    """JSON of a page on loopback, or None."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            return json.load(reply)
    except (urllib.error.URLError, OSError, ValueError):
        return None
