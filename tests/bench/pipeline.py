"""How long from a GPU's sample to the answer of the API server, with 100 nodes at 1 Hz.

Everything is real but the GPUs: agents, Mosquitto, bridge, Kafka, processor, API server.
Loads are driven up and XIDs injected one node after another; the latencies are read from
the decisions topic: from the time of the record that completed the rule's condition (its
agent's clock, the same machine) to the API server's answer. Budgets are opened wide, so
that no decision waits for the brake. Nodes come up 25 at a time, a second apart, as a
DaemonSet brings them up (measured with kwok: 2,000 in 72 s); their first labels count too.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ctl import pipeline, servers, topics
from support import cluster, kafka_reader
from wire import codec, sample, verdict
from wire import topics as wire_topics

NODES = 100
NODES_A_SECOND = 25
FIRST = 101
GPUS = 2
LOADS = 40
XIDS = 30
PARTITIONS = 8
OPEN = {"share_max": 1.0, "rate_share": 1.0}
POLICY = {"budget": {"hard": OPEN, "soft": OPEN}}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="windvane-bench-") as name:
        folder = Path(name)
        with (
            servers.Mosquitto(folder) as mosquitto,
            servers.Kafka(folder) as kafka,
            cluster.ControlPlane(folder / "kube") as plane,
        ):
            topics.create(kafka.bootstrap, PARTITIONS)
            pipe = pipeline.Pipeline(
                folder,
                mqtt_port=mosquitto.port,
                bootstrap=kafka.bootstrap,
                partitions=PARTITIONS,
                cluster="bench",
            )
            try:
                run(pipe, plane)
                figures = measure(pipe)
            finally:
                pipe.stop()
    print(json.dumps({"name": "pipeline", "figures": figures}))


def run(pipe: pipeline.Pipeline, plane: cluster.ControlPlane) -> None:
    """Start all, drive loads and faults, stop the agents, let what they sent arrive."""
    names = [f"edge-{n}" for n in range(FIRST, FIRST + NODES)]
    for name in names:
        plane.create_gpu_node(name, gpus=GPUS)
    plane.wait_ready(names, 120)
    kube = {
        "mode": "kubeconfig",
        "kubeconfig": str(plane.restricted_kubeconfig()),
        "dry_run": False,
    }
    pipe.start_bridge()
    pipe.start_processor(kube=kube, policy=POLICY)
    batches = range(0, NODES, NODES_A_SECOND)
    for first in batches:
        pipe.start_agents(f"agents-{first}", count=NODES_A_SECOND, first=FIRST + first)
        time.sleep(1)
    say("programs started")
    wait(pipe, lambda: sum(n["telemetry"] == "fresh" for n in pipe.nodes().values()) == NODES, 90)
    say("all nodes fresh")
    time.sleep(20)
    for turn in range(LOADS):
        pipe.fault(node=names[turn], fault="load", utilization_percent=98, duration_s=600)
        if turn < XIDS:
            pipe.fault(node=names[LOADS + turn], fault="xid", xid=79, gpu=0, duration_s=600)
        time.sleep(1)
    say("loads and faults injected")
    time.sleep(60)
    for first in batches:
        pipe.programs.pop(f"agents-{first}").stop()
    wait(pipe, lambda: aggregated(pipe) >= sent(pipe), 90)


def measure(pipe: pipeline.Pipeline) -> dict[str, float | int]:
    """Latencies by what caused the decision, and whether the counts add up."""
    applied = [d for d in kafka_reader.decisions(pipe.bootstrap) if d.outcome == "applied"]
    from_sample = [latency_ms(d) for d in applied if d.verdict.cause.kind == "sample"]
    from_event = [latency_ms(d) for d in applied if d.verdict.cause.kind == "event"]
    say(
        f"decisions applied: {len(applied)}, by sample {len(from_sample)}, by XID {len(from_event)}"
    )
    return {
        "nodes": NODES,
        "decisions_by_sample": len(from_sample),
        "decisions_by_xid": len(from_event),
        "sample_to_patch_ms_p50": round(statistics.median(from_sample)),
        "sample_to_patch_ms_p99": percentile_99(from_sample),
        "xid_to_taint_ms_p99": percentile_99(from_event),
        "readings_sent": sent(pipe),
        "readings_aggregated": aggregated(pipe),
    }


def latency_ms(decision: verdict.Decision) -> int:
    """From the record's own time to the API server's answer."""
    assert decision.answered_unix_ms is not None
    return decision.answered_unix_ms - decision.verdict.cause.ts_unix_ms


def percentile_99(values: list[int]) -> int:
    """The value that 99 % do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def sent(pipe: pipeline.Pipeline) -> int:
    """Distinct GPU readings in Kafka, counted from the input topics."""
    seen: dict[tuple[str, str, int], int] = {}
    for topic in (wire_topics.LIVE, wire_topics.BACKLOG):
        for record in kafka_reader.read(pipe.bootstrap, topic):
            envelope = codec.decode_envelope(record.value)
            for one in envelope.records:
                if isinstance(one, sample.Sample):
                    seen[envelope.node, envelope.epoch, one.seq] = len(one.gpus)
    return sum(seen.values())


def aggregated(pipe: pipeline.Pipeline) -> int:
    """GPU readings that the highest revisions of all windows stand for."""
    return kafka_reader.readings(kafka_reader.final_aggregates(pipe.bootstrap))


def wait(pipe: pipeline.Pipeline, true: Callable[[], bool], timeout_s: float) -> None:
    """Poll once a second; time is a failure of the bench."""
    deadline = time.monotonic() + timeout_s
    while not true():
        pipe.must_run()
        if time.monotonic() > deadline:
            sys.exit(f"not within {timeout_s:.0f} s")
        time.sleep(1)


def say(text: str) -> None:
    """Progress on stderr; the last line of stdout is the result."""
    print(f"{time.strftime('%T')} {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
