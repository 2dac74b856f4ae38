"""Real bridges as child processes, and nodes that publish as agents do."""

import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Self

import paho.mqtt.client as paho

from ctl import children, pipeline, ports
from wire import codec, sample, topics

EPOCH = "0123456789abcdef"


class Bridge:
    """One `windvane-bridge`; `start`, `stop`, `kill` as often as you like."""

    def __init__(
        self,
        folder: Path,
        *,
        mqtt_port: int,
        bootstrap: str,
        name: str = "bridge",
        partitions: int = 4,
        **groups: dict[str, Any],
    ) -> None:
        self.port = ports.free()
        tables = {
            "mqtt": {
                "port": mqtt_port,
                "client_id": name,
                "backoff_min_ms": 100,
                "backoff_max_ms": 1000,
            },
            "kafka": {"bootstrap": bootstrap, "partitions": partitions},
            "confirm": {"interval_ms": 200},
            "web": {"port": self.port},
        }
        for group, table in groups.items():
            tables[group] = {**tables[group], **table}
        config = folder / f"{name}.toml"
        config.write_text(pipeline.toml(tables))
        argv = [sys.executable, "-m", "bridge", "--config", str(config)]
        root = str(Path(__file__).resolve().parents[2])
        self.child = children.Child(name, argv, folder, {"PYTHONPATH": root})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.child.stop()

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.child.start()
        children.wait_until(
            self.child.name, lambda: self.answers("/readyz"), timeout_s=60, children=[self.child]
        )

    def stop(self) -> int | None:
        return self.child.stop()

    def kill(self) -> None:
        self.child.kill()

    def answers(self, path: str) -> bool:
        return pipeline.answers(self.port, path)

    def memory_kb(self) -> int:
        """Resident memory."""
        text = Path(f"/proc/{self.child.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    def log(self) -> str:
        return self.child.log_path.read_text()


class Nodes:
    """Publishes for any node over one connection, and hears the confirmations."""

    def __init__(self, port: int, cluster: str) -> None:
        self.cluster = cluster
        self.sent: dict[str, list[int]] = {}
        self.confirmed: dict[str, list[tuple[int, int]]] = {}
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.reconnect_delay_set(1, 1)
        self._client.max_inflight_messages_set(20)
        self._client.on_connect = lambda *_: self._client.subscribe(
            f"windvane/v1/{cluster}/+/confirmed", 1
        )
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def __enter__(self) -> Self:
        until(self._client.is_connected)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _on_message(self, _client: object, _userdata: object, message: Any) -> None:
        node = message.topic.split("/")[3]
        confirmation = codec.decode_confirmation(message.payload)
        self.confirmed.setdefault(node, []).extend(confirmation.ranges)

    def confirmed_seqs(self, node: str) -> set[int]:
        ranges = list(self.confirmed.get(node, ()))
        return {seq for first, last in ranges for seq in range(first, last + 1)}

    def samples(self, node: str, count: int, *, lane: topics.Lane = "live") -> list[Any]:
        """Publish `count` samples with the node's next seqs."""
        made = self.sent.setdefault(node, [])
        infos = []
        for _ in range(count):
            made.append(len(made) + 1)
            infos.append(self.say(node, lane, envelope(self.cluster, node, [made[-1]])))
        return infos

    def say(self, node: str, lane: str, payload: bytes, cluster: str = "") -> Any:
        """Publish anything on a node's topic."""
        topic = f"{topics.MQTT_ROOT}/{cluster or self.cluster}/{node}/{lane}"
        return self._client.publish(topic, payload, qos=1)

    def settle(self, infos: Iterable[Any], timeout_s: float = 30.0) -> None:
        """Wait until the broker has taken them."""
        deadline = time.monotonic() + timeout_s
        for info in infos:
            info.wait_for_publish(max(0.1, deadline - time.monotonic()))


def envelope(cluster: str, node: str, seqs: Iterable[int], *, detail: str = "") -> bytes:
    """One record for each seq: events when there is something to say, else samples."""
    now_ms = time.time_ns() // 1_000_000
    records = tuple(
        sample.Event(seq=seq, ts_unix_ms=now_ms, event="xid", detail=detail)
        if detail
        else sample.Sample(seq=seq, ts_unix_ms=now_ms, interval_ms=1000, gpus=())
        for seq in seqs
    )
    return codec.encode(
        sample.Envelope(
            v=1, cluster=cluster, node=node, epoch=EPOCH, sent_unix_ms=now_ms, records=records
        )
    )


def seqs_of(value: bytes) -> list[int]:
    """The seqs in a Kafka record."""
    return [r.seq for r in codec.decode_envelope(value).records if not isinstance(r, sample.Status)]


def until(happened: Callable[[], object], timeout_s: float = 30.0) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + timeout_s
    gate = threading.Event()
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        gate.wait(0.05)


def page(port: int) -> str:
    """The metrics of a bridge."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read().decode()


def counter(port: int, name: str) -> float:
    """A metric of a bridge, summed over its labels."""
    lines = [x for x in page(port).splitlines() if x.startswith(f"windvane_bridge_{name}")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)
