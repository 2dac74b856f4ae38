"""A GPU that is not there: load by character, power from load, heat from power.

First-order thermal model: the temperature nears `ambient + resistance * power` with a
time constant. Energy is the integral of power. Above the slowdown temperature the
clocks fall and with them the power, until it is cooler again. Dice come in as numbers
from 0 to 1, three for each step, so that the same dice give the same GPU.
"""

import math
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Character = Literal["idle", "wave", "bursty", "busy"]
CHARACTERS: Final[tuple[Character, ...]] = ("idle", "wave", "bursty", "busy")

MEMORY_TOTAL_BYTES: Final = 40 * 2**30
MEMORY_RESERVED_BYTES: Final = 600 * 2**20
POWER_LIMIT_MW: Final = 300_000
POWER_IDLE_MW: Final = 32_000
AMBIENT_C: Final = 27.0
RESISTANCE_C_PER_W: Final = 0.18
HEAT_TIME_S: Final = 45.0
SLOWDOWN_C: Final = 90.0
RECOVERED_C: Final = 86.0
SM_CLOCK_MHZ: Final = 1980
MEMORY_CLOCK_MHZ: Final = 1512


class SimulatedGpu(Struct, frozen=True, kw_only=True):
    """The state of one GPU. `phase` sets its wave apart from its neighbours'."""

    character: Character
    phase: float
    elapsed_s: float = 0.0
    utilization_percent: float = 0.0
    burst_left_s: float = 0.0
    temperature_c: float = 38.0
    power_mw: float = POWER_IDLE_MW
    energy_mj: float = 0.0
    memory_share: float = 0.02
    throttled: bool = False


def step(
    gpu: SimulatedGpu,
    dice: tuple[float, float, float],
    *,
    dt_s: float,
    forced_percent: float | None = None,
    extra_heat_c: float = 0.0,
) -> SimulatedGpu:
    """The GPU `dt_s` later."""
    wanted, burst_left_s = _wanted_percent(gpu, dice, dt_s)
    if forced_percent is not None:
        wanted = forced_percent
    utilization = min(100.0, max(0.0, wanted))
    share = utilization / 100
    power_mw = POWER_IDLE_MW + (POWER_LIMIT_MW * 0.95 - POWER_IDLE_MW) * share**0.9
    if gpu.throttled:
        power_mw *= 0.7
    target_c = AMBIENT_C + extra_heat_c + RESISTANCE_C_PER_W * power_mw / 1000
    nearing = 1 - math.exp(-dt_s / HEAT_TIME_S)
    temperature_c = gpu.temperature_c + (target_c - gpu.temperature_c) * nearing
    memory_target = 0.03 + 0.8 * min(1.0, share * 1.2)
    return replace(
        gpu,
        elapsed_s=gpu.elapsed_s + dt_s,
        utilization_percent=round(utilization, 1),
        burst_left_s=burst_left_s,
        temperature_c=temperature_c,
        power_mw=power_mw,
        energy_mj=gpu.energy_mj + power_mw * dt_s,
        memory_share=gpu.memory_share + (memory_target - gpu.memory_share) * min(1.0, 0.1 * dt_s),
        throttled=temperature_c >= (RECOVERED_C if gpu.throttled else SLOWDOWN_C),
    )


def _wanted_percent(
    gpu: SimulatedGpu, dice: tuple[float, float, float], dt_s: float
) -> tuple[float, float]:
    """The load this character wants, and how long its burst goes on."""
    noise = dice[0] - 0.5
    if gpu.character == "idle":
        return 1.5 + 3 * noise, 0.0
    if gpu.character == "busy":
        return 95 + 8 * noise, 0.0
    if gpu.character == "wave":
        turn = 2 * math.pi * (gpu.elapsed_s / 600 + gpu.phase)
        return 38 + 28 * math.sin(turn) + 12 * noise, 0.0
    left_s = gpu.burst_left_s - dt_s
    if left_s <= 0 and dice[1] < 0.02 * dt_s:
        left_s = 5 + 40 * dice[2]
    return (82 + 20 * noise if left_s > 0 else 6 + 8 * noise), max(0.0, left_s)
