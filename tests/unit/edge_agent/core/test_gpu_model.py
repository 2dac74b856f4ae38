"""The GPU that is not there obeys physics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.core import gpu_model

DICE = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))


@given(st.sampled_from(gpu_model.CHARACTERS), st.lists(DICE, max_size=100), st.floats(0.05, 10))
def test_values_stay_in_their_bounds(character, rolls, dt_s):
    """Percent is percent, power below the limit, heat bounded, energy the sum of power."""
    gpu = gpu_model.SimulatedGpu(character=character, phase=0.3)
    energy_mj = 0.0
    for dice in rolls:
        gpu = gpu_model.step(gpu, dice, dt_s=dt_s)
        energy_mj += gpu.power_mw * dt_s

        assert 0 <= gpu.utilization_percent <= 100
        assert 0 < gpu.power_mw <= gpu_model.POWER_LIMIT_MW
        assert 0 < gpu.temperature_c < 120
        assert 0 < gpu.memory_share < 1
    assert gpu.energy_mj == pytest.approx(energy_mj)


def warmed(extra_heat_c: float, seconds: int = 600) -> gpu_model.SimulatedGpu:
    gpu = gpu_model.SimulatedGpu(character="busy", phase=0)
    for _ in range(seconds):
        gpu = gpu_model.step(gpu, (0.5, 0.5, 0.5), dt_s=1, extra_heat_c=extra_heat_c)
    return gpu


def test_a_busy_gpu_is_warm_and_not_throttled():
    """Full load alone stays below the slowdown temperature."""
    gpu = warmed(0)

    assert 70 < gpu.temperature_c < gpu_model.SLOWDOWN_C
    assert not gpu.throttled


def test_a_hot_gpu_throttles_and_draws_less():
    """With heat from outside it slows down, which shows in its power."""
    hot, cool = warmed(55), warmed(0)

    assert hot.throttled
    assert hot.power_mw < cool.power_mw


def test_characters_differ():
    """Idle is idle, busy is busy, a burst comes and goes, a wave lies between."""
    means = {}
    for character in gpu_model.CHARACTERS:
        gpu = gpu_model.SimulatedGpu(character=character, phase=0)
        total = 0.0
        for tick in range(1200):
            gpu = gpu_model.step(gpu, (0.5, tick % 50 / 50, 0.5), dt_s=1)
            total += gpu.utilization_percent
        means[character] = total / 1200

    assert means["idle"] < 5 < means["wave"] < 90 < means["busy"]
    assert 10 < means["bursty"] < 80


def test_forced_load_wins():
    """A fault of kind load sets the utilisation whatever the character wants."""
    gpu = gpu_model.SimulatedGpu(character="idle", phase=0)

    assert gpu_model.step(gpu, (0, 0, 0), dt_s=1, forced_percent=97).utilization_percent == 97
