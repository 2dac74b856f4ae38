"""One example of each message; their bytes are kept in `golden/`."""

from collections.abc import Mapping

import msgspec

from wire import aggregate, sample, verdict

EPOCH = "0123456789abcdef"
TS = 1_790_000_000_000

GPU = sample.Gpu(
    uuid="GPU-5d2a7f10-0001-4000-8000-000000000001",
    utilization_percent=97.0,
    memory_total_bytes=24 * 2**30,
    memory_used_bytes=20 * 2**30,
    power_mw=68_500,
    power_limit_mw=72_000,
    energy_mj=123_456_789,
    temperature_c=71.0,
    throttle_reasons=("sw-power-cap",),
    throttled_ms={"sw-power-cap": 61_250},
    mig_enabled=True,
    mig=(sample.MigInstance(uuid="MIG-5d2a7f10-0001-4000-8000-000000000002", profile="1g.6gb"),),
    processes=(sample.Process(pid=4242, owner="pod", pod_uid="5f0c", memory_used_bytes=2**30),),
    errors={"sm_clock_mhz": "timeout"},
)

STATUS = sample.Status(
    ts_unix_ms=TS,
    state="birth",
    agent_version="0.1.0",
    sources={"simulated": "yes"},
    gpus=(
        sample.GpuInventory(
            uuid=GPU.uuid, vendor="nvidia", name="NVIDIA L4", unsupported=("fan_percent",)
        ),
    ),
)


def envelope(record: sample.Record) -> sample.Envelope:
    return sample.Envelope(
        v=1, cluster="plant-7", node="edge-01", epoch=EPOCH, sent_unix_ms=TS, records=(record,)
    )


CAUSE = verdict.Cause(kind="event", ts_unix_ms=TS, epoch=EPOCH, seq=8)
VERDICT = verdict.Verdict(
    v=1,
    cluster="plant-7",
    node="edge-01",
    pool="default",
    revision=3,
    load="low",
    health="failed",
    thermal="ok",
    power="ok",
    telemetry="fresh",
    memory_free="4Gi",
    reasons=("xid-79",),
    ts_unix_ms=TS,
    arrived_unix_ms=TS,
    clock_skew_ms=0,
    cause=CAUSE,
    gpus=(),
    intake=verdict.Intake(epoch=EPOCH, received=8, missing=0, duplicates=0, highest_seq=8),
    driver=verdict.DriverVerdict(
        compatibility="old",
        reasons=("branch 550 (production, not confirmed) had ended by 2025-08",),
        version="550.54.15",
        cuda_version="12.4",
        architectures=("Ada",),
    ),
)
TAINT = verdict.Taint(key="windvane.io/gpu-failed", value="xid-79", effect="NoSchedule")
STAT = aggregate.Stat(count=10, min=95.0, mean=97.0, max=100.0)

EXAMPLES: Mapping[str, msgspec.Struct] = {
    "sample": envelope(sample.Sample(seq=7, ts_unix_ms=TS, interval_ms=1000, gpus=(GPU,))),
    "event": envelope(
        sample.Event(
            seq=8,
            ts_unix_ms=TS,
            event="xid",
            gpu_uuid=GPU.uuid,
            xid=79,
            xid_class="hardware",
            severity="fatal",
            action="reboot",
            count=2,
            ts_last_unix_ms=TS + 5,
            detail="off the bus",
        )
    ),
    "loss": envelope(
        sample.Loss(
            seq=9,
            ts_unix_ms=TS,
            lost_epoch=EPOCH,
            seq_from=2,
            seq_to=5,
            time_from_unix_ms=TS - 9000,
            time_to_unix_ms=TS - 6000,
            cause="size",
        )
    ),
    "status": envelope(STATUS),
    "confirmation": sample.Confirmation(v=1, epoch=EPOCH, ranges=((1, 7), (9, 9))),
    "aggregate": aggregate.Aggregate(
        v=1,
        cluster="plant-7",
        node="edge-01",
        window_start_unix_ms=TS,
        window_ms=10_000,
        revision=10,
        samples=10,
        closed_by="watermark",
        gpus=(
            aggregate.GpuAggregate(
                uuid=GPU.uuid,
                readings=10,
                utilization_percent=STAT,
                memory_used_bytes=None,
                power_mw=STAT,
                temperature_c=STAT,
                energy_mj=690_000,
            ),
        ),
    ),
    "verdict": VERDICT,
    "decision": verdict.Decision(
        v=1,
        id="plant-7/edge-01/3",
        ts_unix_ms=TS,
        cluster="plant-7",
        node="edge-01",
        pool="default",
        outcome="applied",
        reason="xid 79",
        labels={"windvane.io/gpu.health": "failed"},
        taints=(TAINT,),
        withheld=(),
        budget=verdict.BudgetState(
            pool_nodes=12, tainted_nodes=1, allowed_nodes=3, tokens=0.5, frozen=False
        ),
        verdict=VERDICT,
        patch={"metadata": {"labels": {"windvane.io/gpu.health": "failed"}}},
        answered_unix_ms=TS + 120,
    ),
}
