"""The names of dcgm-exporter."""

import pytest

from support import dashboards, gpus

WHOLE = gpus.series(gpus.page(gpus.whole_page("dcgm")))


def found(metric):
    return [(labels, number) for name, labels, number in WHOLE if name == metric]


@pytest.mark.parametrize(
    "query",
    [*dashboards.DCGM_REPOSITORY, *dashboards.DCGM_GRAFANA_12239],
    ids=lambda query: query.metric,
)
def test_the_dashboards_queries_find_what_they_ask_for(query):
    """Each metric is there, and each label that is selected or grouped by stands on a row."""
    labels = {name for row, _ in found(query.metric) for name in row}

    assert labels >= query.labels


@pytest.mark.parametrize("metric", dashboards.DCGM_COUNTERS)
def test_the_default_counters_are_there(metric):
    """All that dcgm-exporter shows as shipped, but for what only DCGM knows."""
    assert bool(found(metric)) == (metric not in dashboards.DCGM_COUNTERS_UNKNOWABLE)


def test_units_are_theirs():
    """MiB, W, mJ, MHz, %, and shares of one for the profiling fields."""
    ours = gpus.h100()
    first = {name: number for name, labels, number in reversed(WHOLE) if labels.get("gpu") == "0"}

    assert first["DCGM_FI_DEV_FB_USED"] == 61 * 1024
    assert first["DCGM_FI_DEV_POWER_USAGE"] == 400.0
    assert first["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] == 123_856_789
    assert first["DCGM_FI_DEV_SM_CLOCK"] == ours.sm_clock_mhz
    assert first["DCGM_FI_DEV_GPU_UTIL"] == ours.utilization_percent
    assert first["DCGM_FI_PROF_SM_ACTIVE"] == ours.sm_active_percent / 100
    assert first["DCGM_FI_DEV_XID_ERRORS"] == 79


def test_a_gpu_has_their_labels():
    """Index by bus, UUID, device, model, host and driver; no pod's name is made up."""
    assert found("DCGM_FI_DEV_GPU_TEMP")[0][0] == {
        "gpu": "0",
        "UUID": gpus.UUID,
        "pci_bus_id": "00000000:3B:00.0",
        "device": "nvidia0",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": "edge-01",
        "DCGM_FI_DRIVER_VERSION": "570.86.15",
    }


def test_mig_instances_have_rows_of_their_own():
    """By instance id and profile, on the parent's UUID."""
    rows = [(labels, number) for labels, number in found("DCGM_FI_DEV_FB_USED") if len(labels) > 7]

    assert [(r["GPU_I_ID"], r["GPU_I_PROFILE"], n) for r, n in rows] == [("7", "1g.10gb", 1024.0)]


def test_nvlink_bandwidth_is_a_rate():
    """DCGM's field is one in spite of its name: KiB a second by 1000, of both ways."""
    ours = gpus.h100()
    sent = 2 * 2**30 - ours.nvlink_tx_bytes - ours.nvlink_rx_bytes

    assert found("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")[0][1] == pytest.approx(sent / 1024 / 1000)


@pytest.mark.parametrize("first", [None, {}, {"nvlink_rx_bytes": None}, {"nvlink_tx_bytes": 2**60}])
def test_no_rate_without_two_readings(first):
    """The first sample, a failed reading and a counter that started anew give none."""
    before = [] if first is None else [gpus.sample(gpus.h100(**first))]
    interval_ms = 0 if first == {} else 1000
    registry = gpus.registry_of("dcgm", *before, gpus.sample(gpus.h100(), interval_ms=interval_ms))

    assert "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{" not in gpus.page(registry)


def test_the_last_xid_is_the_last_in_time():
    """BR-29: a gauge as they have it; codes past the bound have no number."""
    events = [gpus.xid(79, 1000), gpus.xid(13, 2000), gpus.xid(48, 500)]
    events += [gpus.xid(1000 + n, 10) for n in range(300)]
    registry = gpus.registry_of("dcgm", gpus.sample(gpus.h100()), *events)

    assert [
        n for name, _, n in gpus.series(gpus.page(registry)) if name.endswith("XID_ERRORS")
    ] == [13.0]


def test_before_the_birth_labels_are_short():
    """What is not known yet is absent."""
    text = gpus.page(gpus.registry_of("dcgm", gpus.sample(gpus.h100())))

    assert f'DCGM_FI_DEV_GPU_TEMP{{Hostname="edge-01",UUID="{gpus.UUID}",device="gpu0"' in text
