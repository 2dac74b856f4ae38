"""Aggregates: what a window of one node amounts to.

`revision` is the number of distinct samples counted in the window. It only grows,
and the same set of samples always has the same revision, so a consumer that keeps
the highest revision of each (cluster, node, window) is right, whatever was
repeated, delayed or read again after a crash.
"""

from typing import Literal

from msgspec import Struct

from wire.names import ClusterName, GpuUuid, NodeName, UnixMs
from wire.sample import Count


class Stat(Struct, frozen=True, kw_only=True):
    """`count` readings that had a value; their least, mean and greatest."""

    count: Count
    min: float
    mean: float
    max: float


class GpuAggregate(Struct, frozen=True, kw_only=True):
    """One GPU over the window. `energy_mj` is the growth of its counter, None without one."""

    uuid: GpuUuid
    readings: Count
    utilization_percent: Stat | None
    memory_used_bytes: Stat | None
    power_mw: Stat | None
    temperature_c: Stat | None
    energy_mj: Count | None


class Aggregate(Struct, frozen=True, kw_only=True):
    """One window of one node, by the node's own clock; `samples` equals `revision`."""

    v: int
    cluster: ClusterName
    node: NodeName
    window_start_unix_ms: UnixMs
    window_ms: Count
    revision: Count
    samples: Count
    closed_by: Literal["watermark", "clock", "amended"]
    gpus: tuple[GpuAggregate, ...]
