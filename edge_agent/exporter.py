"""The agent's Prometheus page: the latest sample of each node, made when it is asked for.

Nothing is kept between two pages but the latest sample, so a GPU that is gone is gone
from the page, and a value that is unknown is absent rather than zero.
"""

import socket
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric

from edge_agent import config
from edge_agent.errors import ExporterError
from wire.sample import Gpu, Sample

LABELS: Final = ("cluster", "node", "gpu")

GAUGES: Final = (
    ("utilization_percent", "Share of time in which the GPU was busy."),
    ("memory_utilization_percent", "Share of time in which its memory was read or written."),
    ("memory_total_bytes", "Memory of the GPU."),
    ("memory_used_bytes", "Memory in use."),
    ("memory_free_bytes", "Memory that can be had."),
    ("memory_reserved_bytes", "Memory that the driver keeps for itself."),
    ("power_watts", "Power drawn."),
    ("power_limit_watts", "Power limit in force."),
    ("energy_joules_total", "Energy since the driver was loaded."),
    ("temperature_celsius", "Temperature."),
    ("temperature_slowdown_celsius", "Temperature at which clocks fall."),
    ("sm_clock_hertz", "Clock of the multiprocessors."),
    ("memory_clock_hertz", "Clock of the memory."),
    ("ecc_uncorrected_count", "Uncorrected memory errors since the driver was loaded."),
)


class Latest:
    """The latest sample of each node; a collector of prometheus_client."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, str], Sample] = {}

    def put(self, cluster: str, node: str, sample: Sample) -> None:
        """Remember the latest sample of a node."""
        self._samples[cluster, node] = sample

    def forget(self, cluster: str, node: str) -> None:
        """Say nothing of this node any more."""
        self._samples.pop((cluster, node), None)

    def collect(self) -> Iterable[Metric]:
        """The page."""
        families = {
            name: GaugeMetricFamily(f"windvane_gpu_{name}", text, labels=LABELS)
            for name, text in GAUGES
        }
        up = GaugeMetricFamily("windvane_gpu_up", "1 when the GPU answers.", labels=LABELS)
        taken = GaugeMetricFamily(
            "windvane_sample_timestamp_seconds", "When the sample was taken.", labels=LABELS[:2]
        )
        for (cluster, node), sample in list(self._samples.items()):
            taken.add_metric((cluster, node), sample.ts_unix_ms / 1000)
            for gpu in sample.gpus:
                labels = (cluster, node, gpu.uuid)
                up.add_metric(labels, float(gpu.state == "ok"))
                for name, value in _values(gpu):
                    if value is not None:
                        families[name].add_metric(labels, value)
        return [taken, up, *families.values()]


def _values(gpu: Gpu) -> tuple[tuple[str, float | None], ...]:
    """Values in Prometheus' base units."""
    return (
        ("utilization_percent", gpu.utilization_percent),
        ("memory_utilization_percent", gpu.memory_utilization_percent),
        ("memory_total_bytes", gpu.memory_total_bytes),
        ("memory_used_bytes", gpu.memory_used_bytes),
        ("memory_free_bytes", gpu.memory_free_bytes),
        ("memory_reserved_bytes", gpu.memory_reserved_bytes),
        ("power_watts", _scaled(gpu.power_mw, 1e-3)),
        ("power_limit_watts", _scaled(gpu.power_limit_mw, 1e-3)),
        ("energy_joules_total", _scaled(gpu.energy_mj, 1e-3)),
        ("temperature_celsius", gpu.temperature_c),
        ("temperature_slowdown_celsius", gpu.temperature_slowdown_c),
        ("sm_clock_hertz", _scaled(gpu.sm_clock_mhz, 1e6)),
        ("memory_clock_hertz", _scaled(gpu.memory_clock_mhz, 1e6)),
        ("ecc_uncorrected_count", gpu.ecc_uncorrected_count),
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


class Exporter:
    """The page on its port."""

    def __init__(self, settings: config.Exporter, registry: CollectorRegistry) -> None:
        try:
            self._server, self._thread = start_http_server(
                settings.port, settings.host, registry=registry
            )
        except (OSError, socket.gaierror) as error:
            raise ExporterError(
                f"exporter: cannot listen on {settings.host}:{settings.port}: {error}"
            ) from error

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=1.0)
