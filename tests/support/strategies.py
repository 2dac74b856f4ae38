"""Hypothesis strategies for the contract: any record, any envelope, any nonsense."""

from hypothesis import strategies as st

from wire import sample

names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
epochs = st.from_regex(r"[0-9a-f]{16}", fullmatch=True)
seqs = st.integers(1, 2**53)
times_ms = st.integers(0, 4_102_444_800_000)
counts = st.integers(0, 2**53)
percents = st.floats(0, 100)
texts = st.text(max_size=40)


def _optional(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


gpus = st.builds(
    sample.Gpu,
    uuid=st.text(min_size=1, max_size=40),
    state=st.sampled_from(["ok", "lost", "suspended", "unreachable", "unresponsive"]),
    utilization_percent=_optional(percents),
    memory_total_bytes=_optional(counts),
    memory_used_bytes=_optional(counts),
    power_mw=_optional(counts),
    energy_mj=_optional(counts),
    temperature_c=_optional(st.floats(-50, 200)),
    throttle_reasons=_optional(st.lists(texts, max_size=3).map(tuple)),
    recovery_action=_optional(st.sampled_from(["none", "gpu-reset", "node-reboot"])),
    throttled_ms=_optional(st.dictionaries(texts, counts, max_size=2)),
    nvlink_down=_optional(st.lists(st.integers(0, 17), max_size=3).map(tuple)),
    performance_state=_optional(st.integers(0, 15)),
    mig_enabled=_optional(st.booleans()),
    mig=st.lists(
        st.builds(
            sample.MigInstance, uuid=st.text(min_size=1), memory_used_bytes=_optional(counts)
        ),
        max_size=2,
    ).map(tuple),
    processes=st.lists(
        st.builds(
            sample.Process,
            pid=st.integers(0, 2**22),
            owner=st.sampled_from(["pod", "host", "gone", "unknown"]),
            pod_uid=_optional(texts),
        ),
        max_size=2,
    ).map(tuple),
    errors=st.dictionaries(texts, texts, max_size=2),
)
samples = st.builds(
    sample.Sample,
    seq=seqs,
    ts_unix_ms=times_ms,
    interval_ms=counts,
    gpus=st.lists(gpus, max_size=3).map(tuple),
)
events = st.builds(
    sample.Event,
    seq=seqs,
    ts_unix_ms=times_ms,
    event=st.sampled_from(["xid", "gpu-lost", "gpu-back", "source-failed"]),
    gpu_uuid=_optional(st.text(min_size=1, max_size=40)),
    xid=_optional(counts),
    detail=texts,
)
losses = st.builds(
    sample.Loss,
    seq=seqs,
    ts_unix_ms=times_ms,
    lost_epoch=epochs,
    seq_from=seqs,
    seq_to=seqs,
    time_from_unix_ms=_optional(times_ms),
    time_to_unix_ms=_optional(times_ms),
    cause=st.sampled_from(["age", "size", "corrupt"]),
)
statuses = st.builds(
    sample.Status,
    ts_unix_ms=times_ms,
    state=st.sampled_from(["birth", "death"]),
    agent_version=texts,
    sources=st.dictionaries(texts, texts, max_size=2),
)
records = samples | events | losses | statuses
envelopes = st.builds(
    sample.Envelope,
    v=st.just(sample.VERSION),
    cluster=names,
    node=names,
    epoch=epochs,
    sent_unix_ms=times_ms,
    records=st.lists(records, max_size=4).map(tuple),
)
