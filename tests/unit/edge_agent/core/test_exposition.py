"""From samples and inventory to rows."""

import pytest

from edge_agent.core import exposition, nodeview, quantities
from support.gpus import MIG_UUID, NODE, TS, UUID, h100, inventory, mig_h100, sample, xid
from wire.sample import Event, Gpu, Process

FIELDS = [
    *(q.field for q in quantities.GPU),
    *(t.field for t in quantities.GPU_TEXTS if t.field not in {"state", "throttle_reasons"}),
    "throttle_reasons",
    "throttled_ms",
]


def view_of(*gpus, known=(), events=(), **more):
    view = nodeview.with_inventory(nodeview.NodeView(), known, "570.86.15")
    view = nodeview.with_sample(view, sample(*gpus, **more), 0, charges=False)
    for event in events:
        view = nodeview.with_event(view, event)
    return view


def rows(*gpus, now_ms=0, **more):
    """Rows by metric; each with its labels by name."""
    families = exposition.families({NODE: view_of(*gpus, **more)}, now_ms)
    return {
        family.metric: [
            (dict(zip(family.labels, values, strict=True)), number)
            for values, number in family.rows.items()
        ]
        for family in families
    }


def values(found, metric, label):
    return {labels[label]: number for labels, number in found.get(metric, [])}


@pytest.mark.parametrize("field", FIELDS)
def test_what_is_none_is_absent_and_takes_nothing_along(field):
    """BR-02, BR-13: each quantity is on the page once, and without its value not at all."""
    whole, without = rows(h100()), rows(h100(**{field: None}))

    assert len(set(whole) - set(without)) == 1
    assert {m: r for m, r in whole.items() if m in without} == without


def test_zero_is_shown():
    """Zero means zero: an idle GPU has its lines."""
    found = rows(Gpu(uuid="A", utilization_percent=0.0, energy_mj=0))

    assert values(found, "windvane_gpu_utilization_ratio", "gpu") == {"A": 0.0}
    assert values(found, "windvane_gpu_energy_joules_total", "gpu") == {"A": 0.0}


@pytest.mark.parametrize("state", ["ok", "lost", "suspended", "unreachable", "unresponsive"])
def test_the_state_is_told_by_value(state):
    """One of five is 1; only `ok` is up, and only then no process means none."""
    found = rows(Gpu(uuid="A", state=state))

    assert [s for s, n in values(found, "windvane_gpu_state", "state").items() if n] == [state]
    assert len(found["windvane_gpu_state"]) == 5
    assert values(found, "windvane_gpu_up", "gpu") == {"A": float(state == "ok")}
    assert ("windvane_gpu_processes" in found) == (state == "ok")


@pytest.mark.parametrize(
    ("reasons", "shown"),
    [
        (None, {}),
        ((), {"": 0.0}),
        (("sw-power-cap", "hw-slowdown"), {"sw-power-cap": 1.0, "hw-slowdown": 1.0}),
        (("hw-slowdown", "hw-slowdown"), {"hw-slowdown": 1.0}),
    ],
)
def test_reasons_for_low_clocks(reasons, shown):
    """Unknown is absent, none is a zero, each reason a row and never two."""
    found = rows(Gpu(uuid="A", throttle_reasons=reasons))

    assert values(found, "windvane_gpu_throttle_active", "reason") == shown


def test_throttled_time_by_reason():
    """Seconds, a counter; what is no number is left out alone."""
    found = rows(Gpu(uuid="A", throttled_ms={"sw-power-cap": 61_250, "x": 10**400, "y": 0}))

    assert values(found, "windvane_gpu_throttled_seconds_total", "reason") == {
        "sw-power-cap": 61.25,
        "y": 0.0,
    }


def test_links_that_are_down_are_named():
    """By number."""
    found = rows(Gpu(uuid="A", nvlink_down=(3, 17)))

    assert values(found, "windvane_gpu_nvlink_down", "link") == {"3": 1.0, "17": 1.0}


def test_a_stale_sample_goes_and_its_time_stays():
    """Nobody sees values of a sampler that stopped; what was heard meanwhile is kept."""
    events = (xid(79), Event(seq=1, ts_unix_ms=TS, event="gpu-lost"))
    found = rows(h100(), known=(inventory(),), events=events, now_ms=10_001)

    assert sorted(found) == [
        "windvane_events_total",
        "windvane_gpu_xid_timestamp_seconds",
        "windvane_gpu_xids_total",
        "windvane_sample_timestamp_seconds",
    ]
    assert found["windvane_sample_timestamp_seconds"][0][1] == TS / 1000


def test_a_gpu_that_is_gone_is_gone():
    """Also its inventory and its XIDs; those without a GPU stay."""
    events = (xid(79), xid(13, uuid=None))
    found = rows(Gpu(uuid="B"), known=(inventory(), inventory("B")), events=events)

    assert {labels["gpu"] for row in found.values() for labels, _ in row if "gpu" in labels} == {
        "B",
        "",
    }
    assert values(found, "windvane_gpu_xids_total", "xid") == {"13": 1.0}


def test_xids_are_counters_with_the_time_of_the_last():
    """BR-29: a repeat is seen, and so is the quiet after it."""
    events = (xid(31, 10_000), xid(31, 70_000))
    found = rows(h100(), events=events)
    (labels, count), (_, when) = (
        found["windvane_gpu_xids_total"][0],
        found["windvane_gpu_xid_timestamp_seconds"][0],
    )

    assert (labels["gpu"], labels["xid"], labels["class"]) == (UUID, "31", "hardware")
    assert (count, when) == (2.0, 70.0)


def test_events_before_the_first_sample():
    """A node whose sampler never ran still tells what it heard."""
    view = nodeview.with_event(nodeview.NodeView(), xid(79))
    found = {family.metric for family in exposition.families({NODE: view}, 0)}

    assert "windvane_gpu_xids_total" in found
    assert "windvane_sample_timestamp_seconds" not in found


def test_mig_instances():
    """BR-03: each under its own UUID with its profile; the parent's utilisation is absent."""
    found = rows(mig_h100())
    labels, number = found["windvane_mig_memory_used_bytes"][0]

    assert (labels["mig"], labels["profile"], number) == (MIG_UUID, "1g.10gb", 2.0**30)
    assert found["windvane_mig_info"][0][0]["gpu_instance_id"] == "7"
    assert "windvane_gpu_utilization_ratio" not in found


def test_processes_have_their_owner():
    """Pid, name, kind, pod and container; what the driver did not tell is absent."""
    found = rows(h100())
    labels = dict(found["windvane_gpu_process_memory_used_bytes"][0][0])

    assert (labels["pid"], labels["name"], labels["kind"]) == ("4242", "python3", "compute")
    assert len(labels["pod_uid"]) == 36
    assert len(labels["container_id"]) == 64
    assert len(found["windvane_gpu_process_info"]) == 2
    assert len(found["windvane_gpu_process_encoder_utilization_ratio"]) == 1


def test_processes_are_bounded_and_the_rest_is_counted():
    """The largest have rows."""
    many = tuple(Process(pid=n, memory_used_bytes=n) for n in range(1, 101))
    found = rows(Gpu(uuid="A", processes=many, processes_omitted_count=5))
    shown = values(found, "windvane_gpu_process_memory_used_bytes", "pid")

    assert len(shown) == exposition.PROCESSES_MAX
    assert min(shown.values()) == 101 - exposition.PROCESSES_MAX
    assert values(found, "windvane_gpu_processes", "gpu") == {"A": 105.0}
    assert values(found, "windvane_gpu_processes_omitted", "gpu") == {
        "A": 105.0 - exposition.PROCESSES_MAX
    }


@pytest.mark.parametrize("how", ["errors", "unsupported"])
def test_processes_that_cannot_be_listed_are_not_none(how):
    """No list is not an empty list."""
    gpu = Gpu(uuid=UUID, errors={"processes": "no permission"} if how == "errors" else {})
    known = inventory()
    if how == "unsupported":
        known = type(known)(uuid=UUID, vendor="nvidia", unsupported=("processes",))
    found = rows(gpu, known=(known,))

    assert "windvane_gpu_processes" not in found


def test_two_of_the_same_are_shown_once():
    """BR-08's kind: a source that tells a GPU or a process twice spoils no scrape."""
    twice = (Process(pid=1), Process(pid=1))
    found = rows(Gpu(uuid="A", processes=twice, power_mw=1), Gpu(uuid="A", power_mw=2))

    assert values(found, "windvane_gpu_power_watts", "gpu") == {"A": 0.001}
    assert len(found["windvane_gpu_process_info"]) == 1


def test_the_inventory_is_one_row():
    """Texts are labels of `windvane_gpu_info`, numbers are rows of their own."""
    found = rows(h100(), known=(inventory(),))
    labels, number = found["windvane_gpu_info"][0]

    assert number == 1.0
    assert (labels["name"], labels["driver_version"]) == ("NVIDIA H100 80GB HBM3", "570.86.15")
    assert values(found, "windvane_gpu_power_limit_max_watts", "gpu") == {UUID: 700.0}
    assert "windvane_gpu_info" not in rows(h100())


def test_the_pace_is_told():
    """Interval and cadence where there are some; the first sample has no interval."""
    paced = rows(h100(), interval_ms=1500, cadence_ms=4000, invalid_count=2)
    first = rows(h100(), interval_ms=0)

    assert paced["windvane_sample_interval_seconds"][0][1] == 1.5
    assert paced["windvane_sample_cadence_seconds"][0][1] == 4.0
    assert paced["windvane_sample_invalid_readings"][0][1] == 2.0
    assert not {"windvane_sample_interval_seconds", "windvane_sample_cadence_seconds"} & set(first)


def test_failed_readings_are_counted():
    """The reasons are in the records."""
    found = rows(Gpu(uuid="A", errors={"sm_clock_mhz": "timeout"}))

    assert values(found, "windvane_gpu_readings_failed", "gpu") == {"A": 1.0}
