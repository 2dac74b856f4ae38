"""Whose energy it is: a GPU's energy shared among its processes, as Kepler does it.

Each tick's energy is split by the processes' shares of the multiprocessors; a process that
is alone has it all. Where shares are not known nobody is charged: energy without an owner
is better than energy with a wrong one. The idle floor is not taken off, so that the
processes' energy adds up to the GPU's while it works.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct

from wire.sample import Gpu, Process, Sample

Level = Literal["process", "container", "pod"]


class Consumer(Struct, frozen=True, kw_only=True):
    """Who uses a GPU, seen as a process, a container or a pod."""

    level: Level
    gpu_uuid: str
    pid: int | None = None
    name: str | None = None
    container_id: str | None = None
    pod_uid: str | None = None


class Ledger(Struct, frozen=True, kw_only=True):
    """Each GPU's counter at the last sample, and what each present consumer has used."""

    counters_mj: Mapping[str, int] = {}
    used_mj: Mapping[Consumer, float] = {}


EMPTY: Final = Ledger()


def step(ledger: Ledger, sample: Sample) -> Ledger:
    """Charge what was used since the last sample; who is gone is forgotten."""
    counters_mj: dict[str, int] = {}
    used_mj: dict[Consumer, float] = {}
    for gpu in sample.gpus:
        spent_mj = 0
        if gpu.energy_mj is not None:
            counters_mj[gpu.uuid] = gpu.energy_mj
            before_mj = ledger.counters_mj.get(gpu.uuid, gpu.energy_mj)
            spent_mj = max(0, gpu.energy_mj - before_mj)
        for consumer, share in shares(gpu).items():
            before = ledger.used_mj.get(consumer, 0.0)
            used_mj[consumer] = before + spent_mj * share
        for consumer in _present(gpu):
            if consumer in ledger.used_mj:
                used_mj.setdefault(consumer, ledger.used_mj[consumer])
    return Ledger(counters_mj=counters_mj, used_mj=used_mj)


def shares(gpu: Gpu) -> dict[Consumer, float]:
    """Each consumer's share of the GPU, 0 to 1; empty where it is not known."""
    parts = _parts(gpu)
    found: dict[Consumer, float] = defaultdict(float)
    for process, part in parts:
        for consumer in _consumers(gpu, process):
            found[consumer] += part
    return dict(found)


def as_process(gpu: Gpu, process: Process) -> Consumer:
    """One process as a consumer."""
    return Consumer(
        level="process",
        gpu_uuid=gpu.uuid,
        pid=process.pid,
        name=process.name,
        container_id=process.container_id,
    )


def _parts(gpu: Gpu) -> list[tuple[Process, float]]:
    if len(gpu.processes) == 1 and not gpu.processes_omitted_count:
        return [(gpu.processes[0], 1.0)]
    known = [
        (process, process.sm_utilization_percent)
        for process in gpu.processes
        if process.sm_utilization_percent is not None
    ]
    total = sum(percent for _, percent in known)
    if len(known) < len(gpu.processes) or not total:
        return []
    return [(process, percent / total) for process, percent in known]


def _present(gpu: Gpu) -> Iterator[Consumer]:
    for process in gpu.processes:
        yield from _consumers(gpu, process)


def _consumers(gpu: Gpu, process: Process) -> Iterator[Consumer]:
    container_id, pod_uid = process.container_id, process.pod_uid
    yield as_process(gpu, process)
    if container_id:
        yield Consumer(
            level="container", gpu_uuid=gpu.uuid, container_id=container_id, pod_uid=pod_uid
        )
    if pod_uid:
        yield Consumer(level="pod", gpu_uuid=gpu.uuid, pod_uid=pod_uid)
