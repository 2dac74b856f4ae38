"""The agent as a process on a machine with NVIDIA GPUs, or so it believes."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from ctl import ports
from edge_agent.core import reading
from support import agents
from support.nvml import standin as machine

pytestmark = pytest.mark.integration

H100 = "h100-80gb-hbm3"


@contextlib.contextmanager
def agent(folder, mqtt_port, node, *arguments):
    """A running `windvane-agent`, and the port of its page."""
    page_port = ports.free()
    (folder / "dev").mkdir()
    (folder / "agent.toml").write_text(
        f'cluster = "demo"\nnode = "edge-01"\nspool_dir = "{folder / "spool"}"\n'
        f"[mqtt]\nport = {mqtt_port}\n[exporter]\nport = {page_port}\n"
        f'[nvml]\ncall_limit_ms = 300\n[host]\ndev = "{folder / "dev"}"\n'
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "edge_agent", "--config", folder / "agent.toml", *arguments],
            cwd=agents.ROOT,
            env={**os.environ, **node.environment},
            stderr=log,
        )
        try:
            yield process, page_port
        finally:
            process.kill()
            process.wait()


def page(port, path):
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def events(cloud):
    return [
        record
        for heard in list(cloud.heard)
        if heard.lane == "events"
        for record in heard.envelope.records
    ]


def samples(cloud):
    return [record for heard in cloud.of("live") for record in heard.envelope.records]


def test_a_node_with_gpus(standin, mosquitto, tmp_path):
    """BR-23, BR-21: all quantities arrive; an XID is there within a second, whatever the tick; a
    call that hangs costs its GPU only; /healthz stays good; SIGTERM ends it all the same.
    """
    node = standin(machine.Gpu(H100), machine.Gpu("l4"))
    me = os.getpid()
    node.say(f"process 0 pid={me} memory_bytes={2**30} sm=50 kind=compute")
    with (
        agents.cloud(mosquitto.port) as cloud,
        agent(tmp_path, mosquitto.port, node, "--aliases", "dcgm,kepler") as (process, port),
    ):
        agents.until(lambda: len(samples(cloud)) >= 4)
        first, second = samples(cloud)[-1].gpus
        known = [name for name in reading.READABLE_FIELDS if getattr(first, name) is not None]
        assert len(known) >= 45
        assert [(row.pid, row.owner in ("host", "pod", "unknown")) for row in first.processes] == [
            (me, True)
        ]
        birth = cloud.of("status")[-1].envelope.records[0]
        assert [gpu.uuid for gpu in birth.gpus] == [first.uuid, second.uuid]
        assert birth.driver_version
        assert birth.library_versions["nvidia-ml-py"]

        said_s = time.monotonic()
        node.say("xid 1 79")
        agents.until(lambda: events(cloud))
        assert time.monotonic() - said_s < 1.0
        (xid,) = events(cloud)
        assert (xid.xid, xid.gpu_uuid, xid.severity) == (79, second.uuid, "fatal")

        node.say("hang 0 nvmlDeviceGetUtilizationRates")
        agents.until(lambda: any(one.event == "gpu-unresponsive" for one in events(cloud)))
        count = len(samples(cloud))
        agents.until(lambda: len(samples(cloud)) >= count + 3)
        assert [gpu.state for gpu in samples(cloud)[-1].gpus] == ["unresponsive", "ok"]
        assert page(port, "/healthz")[0] == 200
        assert page(port, "/readyz")[0] == 200
        text = page(port, "/metrics")[1]
        assert "DCGM_FI_DEV_GPU_UTIL{" in text
        assert "kepler_node_gpu_joules_total{" in text
        assert f'windvane_gpu_up{{cluster="demo",gpu="{first.uuid}",node="edge-01"}} 0.0' in text

        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == 0
    node.say("release")


def test_a_driver_that_does_not_fit_is_not_ready(standin, mosquitto, tmp_path):
    """BR-25: library and module differ: one event, /readyz says why, never a healthy node with
    no GPUs; the spool and the session go on until a supervisor makes a new process.
    """
    node = standin(machine.Gpu(H100), driver_version="550.54.15")
    node.say("driver 580.105.08")
    with (
        agents.cloud(mosquitto.port) as cloud,
        agent(tmp_path, mosquitto.port, node) as (_, port),
    ):
        agents.until(lambda: any(one.event == "driver-mismatch" for one in events(cloud)))
        agents.until(lambda: page(port, "/readyz")[0] == 503)

        assert "driver mismatch" in page(port, "/readyz")[1]
        assert page(port, "/healthz")[0] == 200
        assert samples(cloud) == []
        status = cloud.of("status")[-1].envelope.records[0]
        assert status.sources["nvml"].startswith("driver mismatch")
