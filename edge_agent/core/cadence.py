"""How long to wait until the next look at the GPUs.

| what the last look showed | wait |
|---|---|
| something changed, or a GPU is in use | `tick_ms`: this is what people watch and what steers |
| all GPUs idle and nothing changing for `CALM_MS` | doubling up to `idle_ms` |
| all GPUs suspended | doubling up to `asleep_ms`; the shell watches for one that stirs |

An idle GPU is looked at often enough for its node to stay `fresh` in the cloud and for new
work to be seen within seconds; a suspended one has nothing to tell.

With a budget of bytes a day, what is saved in quiet hours may be spent at full rate later,
up to one hour's worth; when it is spent, the wait is what the budget allows, up to
`WAIT_MS_MAX`. Events are not subject to the budget, but what they cost is paid from it.
"""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from wire.sample import Gpu

CALM_MS: Final = 60_000
WAIT_MS_MAX: Final = 15 * 60_000
DAY_MS: Final = 86_400_000
SAVED_MS_MAX: Final = 3_600_000

UTILIZATION_STEP: Final = 5.0
TEMPERATURE_STEP_C: Final = 3.0
MEMORY_STEP_SHARE: Final = 0.01

Mood = Literal["busy", "idle", "asleep"]


class Limits(Struct, frozen=True, kw_only=True):
    """The waits in ms, and the bytes a day that samples may take (0: as many as they do)."""

    tick_ms: int
    idle_ms: int
    asleep_ms: int
    bytes_per_day: int = 0


class Pace(Struct, frozen=True, kw_only=True):
    """`wait_ms` is the cadence in force; `calm_ms` how long nothing has happened."""

    wait_ms: int
    calm_ms: int = 0
    gpus: tuple[Gpu, ...] = ()
    saved_bytes: float | None = None


def step(
    pace: Pace, limits: Limits, gpus: Sequence[Gpu], *, since_ms: int, spent_bytes: int
) -> Pace:
    """The pace after a look at `gpus`, `since_ms` after the one before.

    `spent_bytes` is what was written for sending since then.
    """
    mood = _mood(gpus)
    calm_ms = 0 if mood == "busy" or _moved(pace.gpus, gpus) else pace.calm_ms + since_ms
    longest_ms = {"busy": limits.tick_ms, "idle": limits.idle_ms, "asleep": limits.asleep_ms}[mood]
    wait_ms = limits.tick_ms
    if calm_ms >= CALM_MS:
        wait_ms = max(limits.tick_ms, min(longest_ms, pace.wait_ms * 2))
    after = replace(pace, wait_ms=wait_ms, calm_ms=calm_ms, gpus=tuple(gpus))
    return _within_budget(after, limits, since_ms, spent_bytes) if limits.bytes_per_day else after


def _within_budget(pace: Pace, limits: Limits, since_ms: int, spent_bytes: int) -> Pace:
    """A longer wait when the bytes for the next look are not there yet."""
    per_ms = limits.bytes_per_day / DAY_MS
    most = per_ms * SAVED_MS_MAX
    saved = most if pace.saved_bytes is None else pace.saved_bytes
    saved = min(most, saved + since_ms * per_ms) - spent_bytes
    wait_ms = pace.wait_ms
    if saved + wait_ms * per_ms < spent_bytes:
        wait_ms = min(WAIT_MS_MAX, max(wait_ms, int((spent_bytes - saved) / per_ms)))
    return replace(pace, wait_ms=wait_ms, saved_bytes=max(saved, -most))


def _mood(gpus: Sequence[Gpu]) -> Mood:
    if gpus and all(gpu.state == "suspended" for gpu in gpus):
        return "asleep"
    return "busy" if any(_is_used(gpu) for gpu in gpus) else "idle"


def _is_used(gpu: Gpu) -> bool:
    return bool(gpu.utilization_percent or gpu.utilization_max_percent or gpu.processes)


def _moved(before: Sequence[Gpu], now: Sequence[Gpu]) -> bool:
    """Whether anything a person would call a change happened between two looks."""
    if [(gpu.uuid, gpu.state) for gpu in before] != [(gpu.uuid, gpu.state) for gpu in now]:
        return True
    return any(_gpu_moved(one, other) for one, other in zip(before, now, strict=True))


def _gpu_moved(before: Gpu, now: Gpu) -> bool:
    memory_step_bytes = MEMORY_STEP_SHARE * (now.memory_total_bytes or 0)
    return (
        before.throttle_reasons != now.throttle_reasons
        or before.recovery_action != now.recovery_action
        or before.mig_enabled != now.mig_enabled
        or _far(before.utilization_percent, now.utilization_percent, UTILIZATION_STEP)
        or _far(before.temperature_c, now.temperature_c, TEMPERATURE_STEP_C)
        or _far(before.memory_used_bytes, now.memory_used_bytes, memory_step_bytes)
    )


def _far(before: float | None, now: float | None, step: float) -> bool:
    if before is None or now is None:
        return before is not now
    return abs(now - before) > step
