"""Verdicts and decisions: what a node looks like, and what was done about it.

A verdict is the opinion of the by-node step. It is published when it changes and
again now and then, so that its silence means that the judge is gone. A decision is
the answer of the by-pool step; it carries everything needed to explain it without
access to the cluster.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from wire.matrix_findings import State
from wire.names import ClusterName, Epoch, GpuUuid, NodeName, UnixMs
from wire.sample import Count, Percent, Text

Load = Literal["idle", "low", "medium", "high", "saturated", "unknown"]
Health = Literal["ok", "degraded", "failed", "unknown"]
Thermal = Literal["ok", "hot", "throttled", "unknown"]
Power = Literal["ok", "capped", "unknown"]
Telemetry = Literal["fresh", "stale", "lost"]
TaintEffect = Literal["PreferNoSchedule", "NoSchedule", "NoExecute"]
Outcome = Literal["applied", "dry-run", "withheld", "unknown-node", "failed"]


class Cause(Struct, frozen=True, kw_only=True):
    """The record that completed the condition; without one (silence), only the time."""

    kind: Literal["sample", "event", "status", "silence"]
    ts_unix_ms: UnixMs
    epoch: Epoch | None = None
    seq: Count | None = None


class GpuVerdict(Struct, frozen=True, kw_only=True):
    """One GPU: its health with the reasons, and the rolling mean that load is judged on."""

    uuid: GpuUuid
    health: Health
    reasons: tuple[Text, ...]
    utilization_percent: Percent | None
    temperature_c: float | None
    power_mw: Count | None
    memory_free_bytes: Count | None


class DriverVerdict(Struct, frozen=True, kw_only=True):
    """The NVIDIA driver as the node told it, judged by the matrix; each architecture once.

    An architecture that is None is that of a GPU which does not tell it.
    """

    compatibility: State
    reasons: tuple[Text, ...]
    version: Text | None
    cuda_version: Text | None
    architectures: tuple[Text | None, ...]


class Intake(Struct, frozen=True, kw_only=True):
    """What the cloud has of the current epoch: `missing` are seqs below the highest one seen."""

    epoch: Epoch
    received: Count
    missing: Count
    duplicates: Count
    highest_seq: Count
    explained: Count = 0


class Verdict(Struct, frozen=True, kw_only=True):
    """`revision` counts the changes of this node's verdict; a repeat keeps it.

    `driver` is None as long as the node has told of no NVIDIA GPU.
    """

    v: int
    cluster: ClusterName
    node: NodeName
    pool: Text | None
    revision: Count
    load: Load
    health: Health
    thermal: Thermal
    power: Power
    telemetry: Telemetry
    memory_free: Text
    reasons: tuple[Text, ...]
    ts_unix_ms: UnixMs
    arrived_unix_ms: UnixMs | None
    clock_skew_ms: int | None
    cause: Cause
    gpus: tuple[GpuVerdict, ...]
    intake: Intake | None
    driver: DriverVerdict | None = None


class Taint(Struct, frozen=True, kw_only=True, order=True):
    """A node taint as Kubernetes has it."""

    key: Text
    value: Text
    effect: TaintEffect


class BudgetState(Struct, frozen=True, kw_only=True):
    """The pool's brake at the time of the decision."""

    pool_nodes: Count
    tainted_nodes: Count
    allowed_nodes: Count
    tokens: Annotated[float, Meta(ge=0)]
    frozen: bool


class Decision(Struct, frozen=True, kw_only=True):
    """What was wished for a node, what of it was allowed, and what became of the patch.

    `id` is the same for the same wish of the same verdict, so that a repeat after a
    crash is known as one. `answered_unix_ms` is when the API server answered.
    """

    v: int
    id: Text
    ts_unix_ms: UnixMs
    cluster: ClusterName
    node: NodeName
    pool: Text
    outcome: Outcome
    reason: Text
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    withheld: tuple[Taint, ...]
    budget: BudgetState
    verdict: Verdict
    patch: dict[str, Any] | None = None
    answered_unix_ms: UnixMs | None = None
