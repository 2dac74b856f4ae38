"""The whole pipeline for one test: real programs, real brokers, real control plane."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ctl import pipeline

PARTITIONS = 4


@pytest.fixture
def pipe(tmp_path: Path, mosquitto, own_kafka) -> Iterator[pipeline.Pipeline]:
    """A pipeline with nothing started; whatever a test starts is ended after it."""
    made = pipeline.Pipeline(
        tmp_path,
        mqtt_port=mosquitto.port,
        bootstrap=own_kafka.bootstrap,
        partitions=PARTITIONS,
        cluster="e2e",
    )
    yield made
    made.stop()
