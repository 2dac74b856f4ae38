"""The names of Kepler."""

import pytest

from support import dashboards, gpus

WHOLE = gpus.series(gpus.page(gpus.whole_page("kepler")))


def found(metric, **wanted):
    return [
        (labels, number)
        for name, labels, number in WHOLE
        if name == metric and wanted.items() <= labels.items()
    ]


@pytest.mark.parametrize("query", dashboards.KEPLER, ids=lambda query: query.metric)
def test_the_queries_find_what_they_ask_for(query):
    """Of 0.7's dashboard and of 0.11's list: each metric with each label that can be known."""
    rows = found(query.metric)

    assert any(labels.keys() >= query.labels for labels, _ in rows)
    assert not any(labels.keys() & query.unknowable for labels, _ in rows)


def test_energy_is_shared_by_the_multiprocessors():
    """400 J of the first GPU: 60 parts for the pod's process, 20 for the host's."""
    wanted = {"gpu": "0"}

    assert [n for _, n in found("kepler_process_gpu_joules_total", **wanted)] == [300.0, 100.0]
    assert [n for _, n in found("kepler_container_gpu_joules_total", **wanted)] == [300.0]
    assert [n for _, n in found("kepler_pod_gpu_watts", **wanted)] == [300.0]
    assert [n for _, n in found("kepler_node_gpu_joules_total", **wanted)] == [123_856.789]


def test_a_pod_is_told_by_its_uid():
    """The agent knows no names: the UID stands for one, and no namespace is made up."""
    labels, _ = found("kepler_container_gpu_joules_total")[0]

    assert (labels["pod_name"], labels["pod_id"]) == (gpus.POD, gpus.POD)


def test_what_is_unknown_is_absent():
    """No power, no watts; no energy, no joules; no shares, no owners."""
    bare = gpus.h100(power_mw=None, energy_mj=None, processes=(gpus.SERVER, gpus.TRAINER))
    lone = gpus.Process(pid=1)
    text = gpus.page(gpus.registry_of("kepler", gpus.sample(bare)))
    other = gpus.page(
        gpus.registry_of("kepler", gpus.sample(gpus.h100(processes=(lone, gpus.SERVER))))
    )

    assert "kepler_node_gpu_watts" not in text
    assert "kepler_node_gpu_joules_total" not in text
    assert "kepler_process_gpu_watts" not in other
    assert 'kepler_process_gpu_compute_utilization{comm="triton"' in other


def test_a_gpu_that_is_gone_takes_its_owners_along():
    """Also when its energy was charged before."""
    first, last = gpus.sample(gpus.h100()), gpus.sample(gpus.h100("GPU-other"))
    text = gpus.page(gpus.registry_of("kepler", first, last))

    assert gpus.UUID not in text
