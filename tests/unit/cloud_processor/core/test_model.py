"""What is remembered can be written down."""

import msgspec
import pytest

from cloud_processor.core import model


@pytest.mark.parametrize(
    "state",
    [
        model.NodeState(cluster="demo", node="edge-01"),
        model.PoolState(cluster="demo", pool="default"),
        model.Window(3, {"a": model.GpuWindow(3, model.Moments(3, 1.5, 0.1, 0.9))}),
    ],
)
def test_a_state_survives_being_written(state):
    """As JSON; the states of long stories are written down in the tests of judge and steer."""
    assert state == msgspec.json.decode(msgspec.json.encode(state), type=type(state))
