"""The rate of one bridge: messages that wait in its session at the broker, until all are in Kafka.

The broker holds the bridge's session with the messages queued in it; then the bridge is
started, and its CPU time and the clock are read when the last one is acknowledged. CPU
time is what scales (a bridge is one process on one core); the clock also counts the
others on this machine, here Mosquitto and Kafka.
"""

import json
import os
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

from ctl import pipeline, servers, topics
from support import bridge_runner
from wire import codec, sample
from wire.topics import mqtt_topic

MESSAGES = int(os.environ.get("BENCH_MESSAGES", "40000"))
NODES = 200
PARTITIONS = 4
WINDOW = 900


def payload(node: str, seq: int, gpus: int) -> bytes:
    """One sample of a node with so many GPUs, as an agent sends it."""
    now_ms = time.time_ns() // 1_000_000
    readings = tuple(
        sample.Gpu(
            uuid=f"GPU-{n:08d}-1111-2222-3333-444455556666",
            utilization_percent=57.5,
            memory_utilization_percent=31.0,
            memory_total_bytes=85_899_345_920,
            memory_used_bytes=42_949_672_960,
            memory_free_bytes=42_949_672_960,
            power_mw=412_345,
            power_limit_mw=700_000,
            energy_mj=123_456_789,
            temperature_c=61.0,
            sm_clock_mhz=1980,
            memory_clock_mhz=2619,
            throttle_reasons=(),
        )
        for n in range(gpus)
    )
    record = sample.Sample(seq=seq, ts_unix_ms=now_ms, interval_ms=1000, gpus=readings)
    return codec.encode(
        sample.Envelope(
            v=1,
            cluster="bench",
            node=node,
            epoch=bridge_runner.EPOCH,
            sent_unix_ms=now_ms,
            records=(record,),
        )
    )


def publish_all(port: int, gpus: int) -> None:
    """All messages at QoS 1, by hand: paho would be the slow part."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        head = b"\0\4MQTT\5\2\0\0\0\0\5bench"
        sock.sendall(bytes([0x10, len(head)]) + head)
        sock.recv(1024)
        unanswered = 0
        for number in range(MESSAGES):
            node = f"edge-{number % NODES:03d}"
            topic = mqtt_topic("bench", node, "live").encode()
            body = struct.pack("!H", len(topic)) + topic
            body += struct.pack("!H", number % 65_535 + 1) + b"\0"
            body += payload(node, number // NODES + 1, gpus)
            sock.sendall(b"\x32" + _length(len(body)) + body)
            unanswered += 1
            while unanswered >= WINDOW:
                unanswered -= len(sock.recv(65_536)) / 4
        while unanswered >= 1:
            unanswered -= len(sock.recv(65_536)) / 4


def _length(value: int) -> bytes:
    out = bytearray()
    while True:
        out.append(value % 128 | (0x80 if value >= 128 else 0))
        value //= 128
        if not value:
            return bytes(out)


def cpu_s(pid: int) -> float:
    """CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def counter(port: int, name: str) -> float:
    """A metric of the bridge's page, summed over its labels."""
    page = pipeline_text(port)
    lines = [line for line in page.splitlines() if line.startswith(f"windvane_bridge_{name}")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def pipeline_text(port: int) -> str:
    """The bridge's page."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: sock.recv(65_536), b"")).decode()


def measure(folder: Path, gpus: int) -> dict[str, float]:
    """One run on servers of its own."""
    folder.mkdir()
    with servers.Mosquitto(folder, persistence=False) as broker, servers.Kafka(folder) as log:
        topics.create(log.bootstrap, PARTITIONS)
        bridge = bridge_runner.Bridge(
            folder,
            mqtt_port=broker.port,
            bootstrap=log.bootstrap,
            confirm={"interval_ms": 1000},
        )
        with bridge:
            pass  # the broker knows its session now
        publish_all(broker.port, gpus)
        bridge.child.start()
        while not pipeline.answers(bridge.port, "/healthz"):
            time.sleep(0.01)
        while counter(bridge.port, "messages_acknowledged_total") == 0:
            time.sleep(0.01)
        done_0 = counter(bridge.port, "messages_acknowledged_total")
        wall_0, cpu_0 = time.monotonic(), cpu_s(bridge.child.pid)
        while counter(bridge.port, "messages_acknowledged_total") < MESSAGES:
            time.sleep(0.2)
        wall, cpu = time.monotonic() - wall_0, cpu_s(bridge.child.pid) - cpu_0
        done = MESSAGES - done_0
        memory_mb = bridge.memory_kb() / 1024
        bridge.stop()
    return {
        "messages_per_s": round(done / wall),
        "messages_per_cpu_s": round(done / cpu),
        "readings_per_cpu_s": round(done * gpus / cpu),
        "rss_mb": round(memory_mb, 1),
    }


def main() -> int:
    """Both sizes of message; the last line is the figures."""
    figures: dict[str, float] = {"messages": MESSAGES}
    with tempfile.TemporaryDirectory(prefix="windvane-bench-") as folder:
        for gpus in (1, 16):
            for name, value in measure(Path(folder) / str(gpus), gpus).items():
                figures[f"{name}_{gpus}_gpu"] = value
    print(json.dumps({"name": "bridge", "figures": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
