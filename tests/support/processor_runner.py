"""Real processor workers as child processes, and a feeder of their topics."""

import asyncio
import contextlib
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import aiokafka

from ctl import children, ports
from wire import codec, topics
from wire.names import node_key
from wire.sample import Envelope, Event, Gpu, Record, Sample, Status

EPOCH = "0123456789abcdef"


class Worker:
    """One `windvane-processor`; `start`, `stop`, `kill` as often as you like."""

    def __init__(
        self,
        folder: Path,
        *,
        bootstrap: str,
        instance: str,
        partitions: int = 4,
        number: int = 1,
        flush_ms: int = 2_000,
        store: str = "rocksdb",
        extra: str = "",
    ) -> None:
        self.port = ports.free()
        home = folder / f"worker-{number}"
        home.mkdir(parents=True, exist_ok=True)
        config = home / "processor.toml"
        config.write_text(
            f'instance = "{instance}"\ndata_dir = "{home}/data"\n'
            f'[kafka]\nbootstrap = "{bootstrap}"\npartitions = {partitions}\n'
            f"[web]\nport = {self.port}\n"
            f'[state]\nflush_ms = {flush_ms}\nstore = "{store}"\n{extra}'
        )
        argv = [sys.executable, "-m", "cloud_processor", "--config", str(config)]
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(p for p in (os.environ.get("PYTHONPATH"), root) if p)
        self.child = children.Child(f"processor-{number}", argv, home, {"PYTHONPATH": path})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.child.stop()

    def start(self, *, wait: bool = True) -> None:
        self.child.start()
        if wait:
            self.wait_healthy()

    def stop(self) -> int | None:
        return self.child.stop()

    def kill(self) -> None:
        self.child.kill()

    def wait_healthy(self, timeout_s: float = 60.0) -> None:
        children.wait_until(
            "processor",
            lambda: self.get("/healthz")[0] == 200,
            timeout_s=timeout_s,
            children=[self.child],
        )

    def get(self, path: str) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except OSError:
            return 0, None

    def nodes(self, cluster: str) -> dict[str, dict[str, Any]]:
        status, page = self.get("/api/nodes")
        rows = page["nodes"] if status == 200 else []
        return {row["node"]: row for row in rows if row["cluster"] == cluster}


class Feeder:
    """Speaks to Kafka as the bridge does; counts what it has said."""

    def __init__(self, bootstrap: str, cluster: str) -> None:
        self.cluster = cluster
        self._bootstrap = bootstrap
        self._seqs: dict[str, int] = {}
        self.samples: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, linger_ms=5, enable_idempotence=True
        )
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()

    def next_seq(self, node: str) -> int:
        self._seqs[node] = self._seqs.get(node, 0) + 1
        return self._seqs[node]

    def sample(self, node: str, ts_ms: int, *, load: float = 20.0, gpus: int = 2) -> Sample:
        self.samples[node] = self.samples.get(node, 0) + 1
        return Sample(
            seq=self.next_seq(node),
            ts_unix_ms=ts_ms,
            interval_ms=1000,
            gpus=tuple(
                Gpu(
                    uuid=f"GPU-{node}-{n}",
                    utilization_percent=load,
                    memory_total_bytes=80 * 2**30,
                    memory_used_bytes=8 * 2**30,
                    memory_free_bytes=72 * 2**30,
                    power_mw=200_000,
                    temperature_c=50.0,
                    temperature_slowdown_c=90.0,
                    recovery_action="none",
                )
                for n in range(gpus)
            ),
        )

    def xid(self, node: str, ts_ms: int, xid: int = 79) -> Event:
        uuid = f"GPU-{node}-0"
        return Event(seq=self.next_seq(node), ts_unix_ms=ts_ms, event="xid", gpu_uuid=uuid, xid=xid)

    async def birth(self, node: str) -> None:
        now_ms = unix_ms()
        await self.send(
            "status", node, [Status(ts_unix_ms=now_ms, state="birth", agent_version="t")]
        )

    async def send(
        self, lane: topics.Lane, node: str, records: Iterable[Record], arrived_ms: int | None = None
    ) -> bytes:
        now_ms = unix_ms() if arrived_ms is None else arrived_ms
        value = codec.encode(
            Envelope(
                v=1,
                cluster=self.cluster,
                node=node,
                epoch=EPOCH,
                sent_unix_ms=now_ms,
                records=tuple(records),
            )
        )
        await self.raw(topics.KAFKA_TOPIC_OF_LANE[lane], node, value, now_ms)
        return value

    async def raw(
        self, topic: str, node: str, value: bytes | None, at_ms: int | None = None
    ) -> None:
        key = node_key(self.cluster, node).encode()
        await self._producer.send_and_wait(topic, value, key=key, timestamp_ms=at_ms or unix_ms())

    async def raw_soon(self, topic: str, node: str, value: bytes, at_ms: int) -> Any:
        key = node_key(self.cluster, node).encode()
        return await self._producer.send(topic, value, key=key, timestamp_ms=at_ms)


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


async def until(what: Any, timeout_s: float = 30.0) -> None:
    """Wait until `what()` is true, off the loop's thread; what is not there yet is not true."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(KeyError, TypeError, AttributeError):
            if await asyncio.to_thread(what):
                return
        assert time.monotonic() < deadline_s, "did not come true in time"
        await asyncio.sleep(0.1)
