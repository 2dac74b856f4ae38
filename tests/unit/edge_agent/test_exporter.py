"""The Prometheus page."""

import socket
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from edge_agent import config, errors, exporter
from wire.sample import Gpu, Sample


def page(*gpus) -> str:
    latest, registry = exporter.Latest(), CollectorRegistry()
    registry.register(latest)
    latest.put("demo", "edge-01", Sample(seq=1, ts_unix_ms=2000, interval_ms=0, gpus=gpus))
    return generate_latest(registry).decode()


def test_values_are_in_base_units_and_labelled_by_uuid():
    """Milliwatts become watts; labels are cluster, node and the GPU's UUID."""
    text = page(Gpu(uuid="A", power_mw=52_500, sm_clock_mhz=1980, utilization_percent=0))
    labels = '{cluster="demo",gpu="A",node="edge-01"}'

    assert f"windvane_gpu_power_watts{labels} 52.5" in text
    assert f"windvane_gpu_sm_clock_hertz{labels} 1.98e+09" in text
    assert f"windvane_gpu_utilization_percent{labels} 0.0" in text
    assert 'windvane_sample_timestamp_seconds{cluster="demo",node="edge-01"} 2.0' in text


def test_what_is_unknown_is_absent_and_not_zero():
    """BR-13: no energy counter, no energy line; a lost GPU is only down."""
    text = page(Gpu(uuid="A"), Gpu(uuid="B", state="lost"))
    lines = [line for line in text.splitlines() if line and line[0] != "#"]

    assert sorted(line.split("{")[0] for line in lines) == [
        "windvane_gpu_up",
        "windvane_gpu_up",
        "windvane_sample_timestamp_seconds",
    ]
    assert 'gpu="B",node="edge-01"} 0.0' in text


def test_a_node_that_is_forgotten_is_gone():
    """Nothing is kept of an agent that ended."""
    latest, registry = exporter.Latest(), CollectorRegistry()
    registry.register(latest)
    latest.put("demo", "n", Sample(seq=1, ts_unix_ms=1, interval_ms=0, gpus=(Gpu(uuid="A"),)))
    latest.forget("demo", "n")

    assert b'node="n"' not in generate_latest(registry)


def test_a_port_that_is_taken_is_told():
    """A page that cannot be served is an error in words at the start."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(errors.ExporterError, match=f"127.0.0.1:{port}"):
            exporter.Exporter(config.Exporter(port=port), CollectorRegistry())


def test_the_page_is_served_and_ends():
    """Over HTTP, until it is closed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    served = exporter.Exporter(config.Exporter(port=port), CollectorRegistry())
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
        assert answer.status == 200
    served.close()
