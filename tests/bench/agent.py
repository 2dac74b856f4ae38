"""What the agent costs a node: `windvane-agent` as a process, read from outside.

The real program with its default settings reads the stand-in for NVIDIA's library through
the real binding, keeps its spool with synchronous=FULL and publishes to Mosquitto; a
listener on the same machine confirms once a second, as the bridge does. The GPUs are in
use, with processes and changing values, so the cadence is 1 Hz. Memory and CPU are those
of /proc/<pid>; the stand-in's calls cost nothing beyond their own instructions, so what is
left is the agent. `library_calls_per_s` lets anyone add what the real library costs.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from ctl import ports, servers
from support import agents
from support.nvml import standin
from wire.sample import Gpu, Sample

WARM_UP_S = 15
SECONDS = int(os.environ.get("SECONDS_EACH", "120"))
PROFILE = "h100-80gb-hbm3"
NO_QUANTITY = {"uuid", "state", "mig", "processes", "processes_omitted_count", "errors"}
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CLOCK_HZ = os.sysconf("SC_CLK_TCK")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="windvane-bench-") as name:
        folder = Path(name)
        with servers.Mosquitto(folder) as mosquitto:
            counts = [int(one) for one in os.environ.get("GPUS", "8 1 16").split()]
            found = {count: measure(folder / str(count), mosquitto.port, count) for count in counts}
    figures = dict(found[counts[0]])
    for count in counts[1:]:
        figures |= {f"{name}_{count}_gpus": value for name, value in found[count].items()}
    print(json.dumps({"name": "agent", "figures": figures}))


def measure(folder: Path, mqtt_port: int, count: int) -> dict[str, float]:
    """One agent with `count` GPUs at 1 Hz."""
    folder.mkdir()
    node = standin.Node(folder / "nvml", [standin.Gpu(PROFILE) for _ in range(count)])
    for index in range(count):
        node.say(f"process {index} pid={os.getpid()} memory_bytes={2**30} sm=70 kind=compute")
    page_port = ports.free()
    (folder / "dev").mkdir()  # no kernel log: what stands in this machine's is not of these GPUs
    (folder / "agent.toml").write_text(
        f'cluster = "bench"\nnode = "edge-{count}"\nspool_dir = "{folder / "spool"}"\n'
        f"[mqtt]\nport = {mqtt_port}\n[exporter]\nport = {page_port}\n"
        f'[source]\nkind = "nvml"\n[host]\ndev = "{folder / "dev"}"\n'
    )
    with agents.cloud(mqtt_port, every_s=1.0) as cloud, (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "edge_agent", "--config", str(folder / "agent.toml")],
            cwd=agents.ROOT,
            env={**os.environ, **node.environment},
            stderr=log,
        )
        try:
            figures = watch(process.pid, node, page_port, count)
        finally:
            process.terminate()
            process.wait(10)
        samples = [
            one
            for heard in cloud.of("live")
            if heard.envelope.node == f"edge-{count}"
            for one in heard.envelope.records
            if isinstance(one, Sample)
        ]
    gpus = samples[-2].gpus
    figures["gpus"] = len(gpus)
    figures["quantities_per_gpu"] = min(quantities(gpu) for gpu in gpus)
    figures["bytes_per_sample"] = statistics.mean(heard.size for heard in cloud.of("live")[-30:])
    return figures


def watch(pid: int, node: standin.Node, page_port: int, count: int) -> dict[str, float]:
    """Memory once a second, CPU and calls over the whole time; values change meanwhile."""
    time.sleep(WARM_UP_S)
    before, calls_before, started_s = cpu_s(pid), sum(node.calls().values()), time.monotonic()
    resident_mb = []
    for second in range(SECONDS):
        for index in range(count):
            node.say(
                f"set {index} utilization.gpu_pct {40 + (7 * second + index) % 60}",
                f"set {index} power.draw_mw {300_000 + 1000 * ((13 * second + index) % 200)}",
            )
        time.sleep(max(0.0, started_s + second + 1 - time.monotonic()))
        resident_mb.append(rss_mb(pid))
    passed_s = time.monotonic() - started_s
    return {
        "rss_mb_p95": round(statistics.quantiles(resident_mb, n=20)[-1], 1),
        "cpu_percent": round(100 * (cpu_s(pid) - before) / passed_s, 3),
        "library_calls_per_s": round((sum(node.calls().values()) - calls_before) / passed_s, 1),
        "tick_ms_p99": tick_ms_p99(page_port),
    }


def rss_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * PAGE_BYTES / 2**20


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_HZ


def tick_ms_p99(port: int) -> float:
    """The upper bound of the histogram's bucket that holds the 99th percentile."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        families = text_string_to_metric_families(page.read().decode())
    buckets = sorted(
        (float(one.labels["le"]), one.value)
        for family in families
        for one in family.samples
        if one.name == "windvane_agent_tick_seconds_bucket"
    )
    most = buckets[-1][1]
    return next(1000 * bound for bound, seen in buckets if seen >= 0.99 * most)


def quantities(gpu: Gpu) -> int:
    """How many quantities of a GPU have a value in the record as sent."""
    return sum(
        getattr(gpu, name) is not None for name in gpu.__struct_fields__ if name not in NO_QUANTITY
    )


if __name__ == "__main__":
    sys.exit(main())
