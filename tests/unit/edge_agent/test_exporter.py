"""The Prometheus page."""

import contextlib
import gzip
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from unittest import mock

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import parser

from edge_agent import cli, config, errors, exporter
from support import gpus
from wire.sample import Gpu, Sample


def page(*shown) -> str:
    latest, registry = exporter.Latest(), CollectorRegistry()
    registry.register(latest)
    latest.put("demo", "edge-01", Sample(seq=1, ts_unix_ms=2000, interval_ms=0, gpus=shown))
    return generate_latest(registry).decode()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def served(registry, questions=exporter.NO_QUESTIONS):
    port = free_port()
    one = exporter.Exporter(config.Exporter(port=port), registry, questions)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        one.close()


def asked(url, **headers):
    """Status, content type, body."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=2
        ) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def test_values_are_in_base_units_and_labelled_by_uuid():
    """Milliwatts become watts, percent shares of one; labels are cluster, node and UUID."""
    text = page(Gpu(uuid="A", power_mw=52_500, sm_clock_mhz=1980, utilization_percent=57))
    labels = '{cluster="demo",gpu="A",node="edge-01"}'

    assert f"windvane_gpu_power_watts{labels} 52.5" in text
    assert f"windvane_gpu_sm_clock_hertz{labels} 1.98e+09" in text
    assert f"windvane_gpu_utilization_ratio{labels} 0.57" in text
    assert 'windvane_sample_timestamp_seconds{cluster="demo",node="edge-01"} 2.0' in text


def test_what_is_unknown_is_absent_and_not_zero():
    """BR-13: no energy counter, no energy line; a lost GPU is only down."""
    series = gpus.series(page(Gpu(uuid="A"), Gpu(uuid="B", state="lost")))

    assert {(name, number) for name, labels, number in series if labels.get("gpu") == "B"} == {
        ("windvane_gpu_up", 0.0),
        ("windvane_gpu_readings_failed", 0.0),
        ("windvane_gpu_state", 1.0),
        ("windvane_gpu_state", 0.0),
    }
    assert not any("energy" in name for name, _, _ in series)


def test_a_node_that_is_forgotten_is_gone():
    """Nothing is kept of an agent that ended."""
    latest, registry = exporter.Latest(), CollectorRegistry()
    registry.register(latest)
    latest.put("demo", "n", Sample(seq=1, ts_unix_ms=1, interval_ms=0, gpus=(Gpu(uuid="A"),)))
    latest.event("demo", "n", gpus.xid(79))
    latest.forget("demo", "n")
    latest.forget("demo", "never seen")

    assert b'node="n"' not in generate_latest(registry)


@pytest.mark.parametrize("names", [(), ("dcgm",), ("kepler",), ("dcgm", "kepler")])
def test_the_page_is_openmetrics_when_asked_for(names):
    """Both texts tell the same rows, and the strict parser of OpenMetrics takes ours."""
    with served(gpus.whole_page(*names)) as url:
        wanted = "application/openmetrics-text; version=1.0.0"
        status, kind, body = asked(f"{url}/metrics", Accept=wanted)
        _, classic_kind, classic = asked(f"{url}/metrics")
    families = parser.text_string_to_metric_families(body.decode())
    rows = {(r.name, *sorted(r.labels.items())) for one in families for r in one.samples}

    assert status == 200
    assert kind.startswith("application/openmetrics-text")
    assert classic_kind.startswith("text/plain")
    assert rows == {(n, *sorted(row.items())) for n, row, _ in gpus.series(classic.decode())}


def test_counters_are_told_as_counters():
    """Prometheus chooses by the type what a rate means."""
    text = gpus.page(gpus.whole_page("dcgm"))

    assert "# TYPE windvane_gpu_energy_joules_total counter" in text
    assert "# TYPE windvane_gpu_info gauge" in text
    assert "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION untyped" in text


def test_any_name_can_be_shown():
    """BR-15: quotes, line ends and broken text in a process' name cost nothing."""
    name = 'a"b\\c\nd\udc80'
    text = page(Gpu(uuid="A", processes=(gpus.Process(pid=1, name=name),)))
    names = [row["name"] for _, row, _ in gpus.series(text) if "name" in row]

    assert names == ['a"b\\c\nd?']


def test_a_page_is_of_one_moment():
    """Samples that come while pages are made in other threads disturb none."""
    latest, registry = exporter.Latest(("dcgm", "kepler")), CollectorRegistry()
    registry.register(latest)
    stop, failures = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                generate_latest(registry)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
                failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    ends_s = time.monotonic() + 0.5
    tick = 0
    while time.monotonic() < ends_s:
        tick += 1
        node = f"n{tick % 7}"
        latest.put("demo", node, gpus.sample(gpus.h100(f"GPU-{tick % 5}")))
        latest.event("demo", node, gpus.xid(tick % 200))
        latest.forget("demo", f"n{(tick + 3) % 7}")
    stop.set()
    for reader in readers:
        reader.join(timeout=2)

    assert failures == []


@pytest.mark.parametrize(("trouble", "status"), [("", 200), ("a node: stuck", 503)])
def test_questions_are_answered_beside_the_page(trouble, status):
    """For probes: trouble is 503 with its words; other paths are the page."""
    with served(CollectorRegistry(), {"/healthz": lambda: trouble}) as url:
        found, _, body = asked(f"{url}/healthz")
        elsewhere, kind, _ = asked(f"{url}/metrics")

    assert (found, body.decode().strip()) == (status, trouble or "ok")
    assert (elsewhere, kind.split(";")[0]) == (200, "text/plain")


def test_a_large_page_may_be_compressed():
    """As Prometheus asks for it."""
    with served(gpus.whole_page()) as url:
        _, _, body = asked(f"{url}/metrics", **{"Accept-Encoding": "gzip"})

    assert b"windvane_gpu_up" in gzip.decompress(body)


def test_a_client_that_stalls_keeps_nobody_waiting():
    """Each request has its own thread, and an end."""
    with served(CollectorRegistry()) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as stalled:
            stalled.send(b"GET /metrics HTTP/1.1\r\n")
            status, _, _ = asked(f"{url}/metrics")

    assert status == 200
    assert 0 < exporter.REQUEST_TIMEOUT_S <= 60


def test_a_port_that_is_taken_is_told():
    """A page that cannot be served is an error in words at the start."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(errors.ExporterError, match=f"127.0.0.1:{port}"):
            exporter.Exporter(config.Exporter(port=port), CollectorRegistry())


def test_a_port_is_free_after_the_end():
    """An agent that is started anew gets its port."""
    with served(CollectorRegistry()) as url:
        port = int(url.rsplit(":", 1)[1])
    exporter.Exporter(config.Exporter(port=port), CollectorRegistry()).close()


def test_sets_of_names_are_settings():
    """`[exporter] aliases`; a name that is not known is told with those that are."""
    table = {"cluster": "demo", "node": "n", "exporter": {"aliases": ["dcgm"]}}

    assert config.read(table, {}).exporter.aliases == ("dcgm",)
    with pytest.raises(config.settings.Problems, match=r"exporter\.aliases"):
        config.read({**table, "exporter": {"aliases": ["nagios"]}}, {})


@pytest.mark.parametrize(
    ("given", "names"), [("dcgm,kepler", ("dcgm", "kepler")), (" kepler ", ("kepler",)), ("", ())]
)
def test_sets_of_names_are_a_flag(tmp_path, given, names):
    """`--aliases dcgm,kepler` wins over the file."""
    file = tmp_path / "agent.toml"
    file.write_text('cluster = "demo"\nnode = "n"\n[exporter]\naliases = ["dcgm"]\n')
    seen = []

    async def run(settings, _stopping):
        seen.append(settings)

    with mock.patch.object(cli.app, "run", run):
        code = cli.main(["--config", str(file), "--aliases", given])

    assert (code, [one.exporter.aliases for one in seen]) == (0, [names])


def test_a_set_that_is_not_known_is_refused(capsys, monkeypatch):
    """Exit code 2, before anything is touched."""
    monkeypatch.setenv("WINDVANE__CLUSTER", "demo")
    monkeypatch.setenv("WINDVANE__NODE", "n")
    monkeypatch.setenv("WINDVANE__EXPORTER__ALIASES", json.dumps(["dcgm"]))

    assert cli.main(["--aliases", "nagios"]) == 2
    assert "exporter.aliases" in capsys.readouterr().err
