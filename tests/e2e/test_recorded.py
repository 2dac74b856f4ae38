"""A recorded trace through the whole pipeline: what comes out adds up to what went in."""

import csv
import gzip
import time
from collections import Counter
from pathlib import Path

import pytest

from support import kafka_reader

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TRACE = "pod_gpu_duty_cycle_anon.csv.gz"
SPEED = 1200.0


def rows_of(path: Path) -> Counter[str]:
    """Readings per series, counted by hand."""
    with gzip.open(path, "rt", newline="") as file:
        return Counter(row["container_ip"] for row in csv.DictReader(file))


def test_counts_add_up_exactly(pipe, traces: Path) -> None:
    """Every row of the trace, replayed 1,200 times as fast, is in the aggregates exactly once."""
    expected = rows_of(traces / TRACE)
    pipe.start_bridge()
    pipe.start_processor()
    pipe.start_agents(
        count=12,
        tick_ms=100,
        source={
            "source": {"kind": "recorded"},
            "recorded": {"file": str(traces / TRACE), "speed": SPEED},
        },
    )
    deadline = time.monotonic() + 240
    counted: Counter[str] = Counter()
    while counted.total() < expected.total() and time.monotonic() < deadline:
        time.sleep(5)
        pipe.must_run()
        counted = Counter()
        for made in kafka_reader.final_aggregates(pipe.bootstrap):
            for gpu in made.gpus:
                counted[gpu.uuid.removeprefix("REC-")] += gpu.readings

    assert expected == counted
