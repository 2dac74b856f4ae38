"""Dry-run mode: what would be done is told, and nothing can be done."""

import inspect

import prometheus_client as prom
import pytest

from cloud_processor import config, telemetry
from cloud_processor.kube import client, directory, dry
from cloud_processor.kube import steering as steering_parts
from support import steering
from support.kube_stub import KubeStub

pytestmark = pytest.mark.timeout(20)


def test_dry_run_writes_nothing_whatever_is_wished(tmp_path):
    """BR-117: faults on three nodes, a stale one, removal: zero writes, all told."""
    with KubeStub() as stub:
        for n in range(1, 5):
            stub.put(f"edge-{n:02d}")
        settings = config.Settings(
            kube=config.Kube(
                mode="kubeconfig", kubeconfig=str(stub.kubeconfig(tmp_path)), dry_run=True
            )
        )
        told = telemetry.Telemetry(prom.CollectorRegistry())
        answers = []
        known, writer = steering_parts.build(settings, told, answers.append)
        known.start()
        assert known.listed.wait(5)
        for n in range(1, 4):
            writer.wish(steering.wish(f"edge-{n:02d}", taints=[steering.FAILED]))
        writer.wish(steering.wish("edge-04", labels={"windvane.io/gpu.telemetry": "stale"}))
        writer.wish(steering.wish("edge-01", labels={}, number=2))
        known.stop()

        assert isinstance(writer, dry.DryWriter)
        assert stub.writes() == []
        assert [answer.outcome for answer in answers] == ["dry-run"] * 5
        assert all(answer.patch for answer in answers)


def test_dry_run_is_given_no_way_to_write():
    """BR-117: neither the dry writer nor the reader it lives beside has a write method."""
    assert not hasattr(client.NodeReader, "patch")
    assert "client" not in inspect.getsource(dry).split('"""', 2)[2]


def test_the_same_wish_is_told_once():
    """A repeated verdict does not repeat the record of what would have been done."""
    answers = []
    writer = dry.DryWriter(known=directory.Everyone(), domain="windvane.io", answer=answers.append)

    for number in range(5):
        writer.wish(steering.wish(taints=[steering.FAILED], number=number))
    writer.wish(steering.wish(number=9))

    assert len(answers) == 2
