"""Builders of verdicts and wishes for the tests of the shells."""

from cloud_processor.core import plan
from wire.verdict import BudgetState, Cause, Intake, Taint, Verdict

FAILED = Taint(key="windvane.io/gpu-failed", value="xid-79", effect="NoSchedule")
BUDGET = BudgetState(pool_nodes=10, tainted_nodes=0, allowed_nodes=3, tokens=1.0, frozen=False)


def verdict(node="edge-01", *, cluster="demo", pool="default", revision=1, **changes) -> Verdict:
    given = {
        "v": 1,
        "cluster": cluster,
        "node": node,
        "pool": pool,
        "revision": revision,
        "load": "low",
        "health": "ok",
        "thermal": "ok",
        "power": "ok",
        "telemetry": "fresh",
        "memory_free": "unknown",
        "reasons": (),
        "ts_unix_ms": 1_000_000 + revision,
        "arrived_unix_ms": 1_000_000,
        "clock_skew_ms": 0,
        "cause": Cause(kind="sample", ts_unix_ms=1_000_000),
        "gpus": (),
        "intake": Intake(epoch="0" * 16, received=3, missing=0, duplicates=0, highest_seq=3),
    }
    return Verdict(**{**given, **changes})


def wish(node="edge-01", *, labels=None, taints=(), number=1) -> plan.Wish:
    return plan.Wish(
        decision_id=f"{node}-{number}",
        node=node,
        pool="default",
        labels={"windvane.io/gpu.load": "low"} if labels is None else labels,
        taints=tuple(taints),
        withheld=(),
        reason="for the test",
        budget=BUDGET,
        verdict=verdict(node),
    )
