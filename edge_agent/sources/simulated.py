"""Simulated GPUs: the same for the same seed, node and tick, with faults on request.

Faults come through an append-only file of JSON lines that is looked at in each read. A
fault without `at_s` begins when it is read; those that stand in the file at the start
begin `at_s` seconds after it.
"""

import hashlib
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edge_agent import config
from edge_agent.core import faults, gpu_model, reading
from wire.sample import GpuInventory

NAME: Final = "Simulated GPU 40GB"
HOT_C: Final = 55.0


class Simulated:
    """A source of `gpus` made-up GPUs for one node."""

    name = "simulated"
    finished = False

    def __init__(
        self,
        settings: config.Simulated,
        node: str,
        *,
        tick_ms: int,
        skipped: Callable[[str, str], None] = lambda _line, _problem: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._node = node
        self._dt_s = tick_ms / 1000
        self._skipped = skipped
        self._clock = clock
        self._sleep = sleep
        self._started_s = clock()
        self._dice = random.Random(f"{settings.seed}/{node}")  # noqa: S311 - not for secrets
        self._uuids = [_uuid(settings.seed, node, index) for index in range(settings.gpus)]
        self._gpus = [
            gpu_model.SimulatedGpu(character=self._character(settings), phase=self._dice.random())
            for _ in self._uuids
        ]
        self._control = Path(settings.control_file) if settings.control_file else None
        self._control_read_bytes = 0
        self._faults: list[faults.Active] = []
        self._xids_to_come: list[faults.Active] = []

    def _character(self, settings: config.Simulated) -> gpu_model.Character:
        rolled = self._dice.choices(gpu_model.CHARACTERS, (3, 4, 3, 1))[0]
        if self._node in settings.busy_nodes:
            return "busy"
        return settings.profile or rolled

    def available(self) -> reading.Availability:
        """There are always GPUs here."""
        return reading.Availability(
            state="yes",
            driver_version="simulated",
            gpus=tuple(
                GpuInventory(
                    uuid=uuid,
                    vendor="simulated",
                    name=NAME,
                    memory_total_bytes=gpu_model.MEMORY_TOTAL_BYTES,
                )
                for uuid in self._uuids
            ),
        )

    def read(self) -> tuple[reading.Observation, ...]:
        """One tick of all GPUs; may block or say nothing, when that is the fault asked for."""
        now_s = self._clock() - self._started_s
        self._read_control(now_s)
        self._faults = [f for f in self._faults if now_s < f.to_s]
        events = self._new_xids(now_s)
        for index in range(len(self._gpus)):
            self._gpus[index] = self._step(index, now_s)
        for hang in faults.active(self._faults, "hang", now_s):
            self._sleep(hang.to_s - now_s)
        if faults.active(self._faults, "silent", now_s):
            return ()
        gpus = tuple(self._raw(index, now_s) for index in range(len(self._gpus)))
        return (reading.Observation(gpus=gpus, events=events),)

    def close(self) -> None:
        """Nothing to let go of."""

    def _step(self, index: int, now_s: float) -> gpu_model.SimulatedGpu:
        loads = [f for f in faults.active(self._faults, "load", now_s) if faults.hits(f, index)]
        heats = [f for f in faults.active(self._faults, "hot", now_s) if faults.hits(f, index)]
        dice = (self._dice.random(), self._dice.random(), self._dice.random())
        return gpu_model.step(
            self._gpus[index],
            dice,
            dt_s=self._dt_s,
            forced_percent=loads[-1].fault.utilization_percent if loads else None,
            extra_heat_c=HOT_C if heats else 0.0,
        )

    def _new_xids(self, now_s: float) -> tuple[reading.RawEvent, ...]:
        """The XIDs that fell since the last read, each told once."""
        fallen = [one for one in self._xids_to_come if one.from_s <= now_s]
        self._xids_to_come = [one for one in self._xids_to_come if one.from_s > now_s]
        return tuple(
            reading.RawEvent(
                event="xid",
                gpu_uuid=self._uuids[one.fault.gpu or 0],
                xid=one.fault.xid,
                detail="simulated",
            )
            for one in fallen
        )

    def _raw(self, index: int, now_s: float) -> reading.RawGpu:
        xids = [
            f.fault.xid
            for f in faults.active(self._faults, "xid", now_s)
            if faults.hits(f, index) and f.fault.xid is not None
        ]
        if any(xid in faults.OFF_THE_BUS for xid in xids):
            return reading.RawGpu(uuid=self._uuids[index], state="lost")
        needs_reset = any(xid in faults.NEEDS_RESET for xid in xids)
        return reading.RawGpu(
            uuid=self._uuids[index],
            readings=_readings(self._gpus[index], needs_reset=needs_reset),
        )

    def _read_control(self, now_s: float) -> None:
        """Whole new lines of the control file; the rest of a half-written one comes later."""
        if self._control is None:
            return
        try:
            if self._control.stat().st_size == self._control_read_bytes:
                return
            with self._control.open("rb") as file:
                file.seek(self._control_read_bytes)
                news = file.read()
        except OSError:
            return
        whole = news[: news.rfind(b"\n") + 1]
        self._control_read_bytes += len(whole)
        for line in whole.splitlines():
            if not line.strip():
                continue
            found = faults.parse(line)
            if isinstance(found, str):
                self._skipped(line.decode(errors="replace"), found)
            elif found.node == self._node and (found.gpu or 0) >= len(self._uuids):
                self._skipped(line.decode(errors="replace"), "there is no such GPU here")
            elif found.node == self._node:
                one = faults.Active(fault=found, from_s=max(now_s, found.at_s))
                self._faults.append(one)
                if found.fault == "xid":
                    self._xids_to_come.append(one)


def _uuid(seed: int, node: str, index: int) -> str:
    digest = hashlib.sha256(f"{seed}/{node}/{index}".encode()).hexdigest()
    return f"GPU-{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"


def _readings(gpu: gpu_model.SimulatedGpu, *, needs_reset: bool) -> dict[str, object]:
    usable = gpu_model.MEMORY_TOTAL_BYTES - gpu_model.MEMORY_RESERVED_BYTES
    used = int(usable * gpu.memory_share)
    slow = 0.7 if gpu.throttled else 1.0
    return {
        "utilization_percent": gpu.utilization_percent,
        "memory_utilization_percent": round(gpu.utilization_percent * 0.6, 1),
        "memory_total_bytes": gpu_model.MEMORY_TOTAL_BYTES,
        "memory_used_bytes": used,
        "memory_free_bytes": usable - used,
        "memory_reserved_bytes": gpu_model.MEMORY_RESERVED_BYTES,
        "power_mw": round(gpu.power_mw),
        "power_limit_mw": gpu_model.POWER_LIMIT_MW,
        "energy_mj": round(gpu.energy_mj),
        "temperature_c": round(gpu.temperature_c, 1),
        "temperature_slowdown_c": gpu_model.SLOWDOWN_C,
        "sm_clock_mhz": round(gpu_model.SM_CLOCK_MHZ * slow),
        "memory_clock_mhz": gpu_model.MEMORY_CLOCK_MHZ,
        "throttle_reasons": ("hw-thermal-slowdown",) if gpu.throttled else (),
        "ecc_uncorrected_count": 0,
        "recovery_action": "gpu-reset" if needs_reset else "none",
        "mig_enabled": False,
    }
