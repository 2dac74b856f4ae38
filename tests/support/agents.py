"""Real agents as processes, and a listener that stands where the bridge stands."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from wire import codec, sample, topics

ROOT = Path(__file__).resolve().parents[2]


class Heard:
    """One message as it arrived."""

    def __init__(self, message: paho.MQTTMessage) -> None:
        self.topic = message.topic
        self.lane = message.topic.rsplit("/", 1)[1]
        self.qos = message.qos
        self.size = len(message.payload)
        self.retain = message.retain
        self.properties = dict(message.properties.UserProperty)
        self.envelope = codec.decode_envelope(message.payload)
        self.seqs = [r.seq for r in self.envelope.records if not isinstance(r, sample.Status)]


class Cloud:
    """Hears everything; confirms what it hears when `confirms` is set: at once, or what came
    in `every_s` together, as the bridge does.
    """

    def __init__(self, port: int, *, confirms: bool = True, every_s: float = 0.0) -> None:
        self.heard: list[Heard] = []
        self.confirms = confirms
        self._every_s = every_s
        self._due: dict[tuple[str, str, str], tuple[sample.Envelope, list[int]]] = {}
        self._next_s = 0.0
        self.seqs: set[int] = set()
        self._client = paho.Client(
            paho.CallbackAPIVersion.VERSION2, client_id="cloud", protocol=paho.MQTTv5
        )
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = lambda *_: self._client.subscribe("windvane/v1/+/+/#", 1)
        self._client.on_message = self._on_message
        subscribed = threading.Event()
        self._client.on_subscribe = lambda *_: subscribed.set()
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600
        self._client.connect("127.0.0.1", port, clean_start=False, properties=properties)
        self._client.loop_start()
        assert subscribed.wait(10)

    def _on_message(
        self, client: paho.Client, _userdata: object, message: paho.MQTTMessage
    ) -> None:
        if message.topic.endswith("/confirmed"):
            return
        heard = Heard(message)
        self.heard.append(heard)
        self.seqs |= set(heard.seqs)
        if self.confirms and heard.seqs:
            said = heard.envelope
            _, seqs = self._due.setdefault((said.cluster, said.node, said.epoch), (said, []))
            seqs.extend(heard.seqs)
            if time.monotonic() >= self._next_s:
                self._next_s = time.monotonic() + self._every_s
                due, self._due = self._due, {}
                for envelope, seqs in due.values():
                    self.confirm(envelope, seqs)

    def confirm(self, envelope: sample.Envelope, seqs: list[int]) -> None:
        """Say to the node that Kafka has these."""
        topic = topics.mqtt_topic(envelope.cluster, envelope.node, "confirmed")
        said = sample.Confirmation(v=1, epoch=envelope.epoch, ranges=topics.to_ranges(seqs))
        self._client.publish(topic, codec.encode(said), qos=1)

    def say(self, topic: str, payload: bytes) -> None:
        """Publish anything."""
        self._client.publish(topic, payload, qos=1).wait_for_publish(5)

    def of(self, lane: str) -> list[Heard]:
        """What arrived on a lane."""
        return [heard for heard in list(self.heard) if heard.lane == lane]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class AgentProcess:
    """`windvane-agent` with simulated GPUs, as a process of its own."""

    def __init__(self, folder: Path, port: int, **settings: object) -> None:
        self.folder = folder
        self.metrics_port = settings.pop("metrics_port", 0)
        lines = [f'spool_dir = "{folder / "spool"}"']
        lines += [f"{k} = {json.dumps(v)}" for k, v in settings.items() if k[0] != "_"]
        self.config = folder / "agent.toml"
        self.config.write_text(
            "\n".join(
                (
                    'cluster = "demo"',
                    *lines,
                    f"[mqtt]\nport = {port}\nbackoff_min_ms = 100\nbackoff_max_ms = 1000",
                    f"confirm_timeout_ms = {settings.get('_confirm_timeout_ms', 1500)}",
                    f"[exporter]\nport = {self.metrics_port}",
                    '[source]\nkind = "simulated"',
                    f'[simulated]\ncontrol_file = "{folder / "control.jsonl"}"',
                )
            )
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "agent.log"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "edge_agent", "--config", str(self.config)],
                cwd=ROOT,
                stderr=log,
            )

    def kill(self) -> None:
        """As the kernel does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(timeout=6)
        self.process = None
        return code


def until(happened: Callable[[], object], timeout_s: float = 15.0) -> None:
    """Wait until something is true; an assertion with its source when it never is."""
    deadline = time.monotonic() + timeout_s
    gate = threading.Event()
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        gate.wait(0.05)


@contextlib.contextmanager
def agent(folder: Path, port: int, **settings: object) -> Iterator[AgentProcess]:
    """A running agent that is gone afterwards."""
    one = AgentProcess(folder, port, **settings)
    one.start()
    try:
        yield one
    finally:
        one.kill()


@contextlib.contextmanager
def cloud(port: int, *, confirms: bool = True, every_s: float = 0.0) -> Iterator[Cloud]:
    """A listener that is gone afterwards."""
    one = Cloud(port, confirms=confirms, every_s=every_s)
    try:
        yield one
    finally:
        one.close()
