"""The page's tables and the contract say the same."""

import pytest

from edge_agent.core import quantities, reading
from wire.sample import Gpu, GpuInventory, MigInstance, Process

IDLE = ("idle_ms", "idle_total_ms", "idle_energy_mj")
GPU_FIELDS = [
    *(q.field for q in quantities.GPU),
    *(t.field for t in quantities.GPU_TEXTS),
    quantities.THROTTLED.field,
]
TABLES = (quantities.GPU, quantities.INVENTORY, quantities.MIG, quantities.PROCESS)
ALL = [*(q for table in TABLES for q in table), quantities.THROTTLED]


def test_every_quantity_of_a_gpu_has_exactly_one_metric():
    """A field that is added to the contract must be given a name here."""
    assert sorted(GPU_FIELDS) == sorted((*reading.READABLE_FIELDS, *IDLE, "state"))


@pytest.mark.parametrize(
    ("struct", "fields", "elsewhere"),
    [
        (Gpu, GPU_FIELDS, {"uuid", "mig", "processes", "processes_omitted_count", "errors"}),
        (
            GpuInventory,
            [*(q.field for q in quantities.INVENTORY), *quantities.INVENTORY_LABELS],
            {"uuid", "unsupported", "memory_total_bytes"},
        ),
        (
            MigInstance,
            [q.field for q in quantities.MIG],
            {"uuid", "profile", "gpu_instance_id", "compute_instance_id"},
        ),
        (
            Process,
            [q.field for q in quantities.PROCESS],
            {"pid", "name", "kind", "owner", "pod_uid", "container_id", "mig_uuid"},
        ),
    ],
)
def test_no_field_of_the_contract_is_forgotten(struct, fields, elsewhere):
    """What is in no table is a label or counted, and is named here."""
    assert sorted((*fields, *elsewhere)) == sorted(struct.__struct_fields__)


def test_no_metric_is_told_twice():
    """Nor one that is another's counter without its suffix, which OpenMetrics takes as the same."""
    names = [q.metric.removesuffix("_total") for q in ALL]
    names += [t.metric for t in quantities.GPU_TEXTS]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("quantity", ALL, ids=lambda q: q.metric)
def test_names_tell_the_base_unit(quantity):
    """The field's unit is turned into the base unit, and the metric's name says so."""
    suffix = next((s for s in quantities.UNITS if quantity.field.endswith(f"_{s}")), None)

    assert quantity.unit == (quantities.UNITS[suffix] if suffix else quantities.PLAIN)
    assert quantity.metric.removesuffix("_total").endswith(quantity.unit.name)
    assert (quantity.kind == "counter") == quantity.metric.endswith("_total")
    assert quantity.text.endswith(".")


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        ("percent", 57.0, 0.57),
        ("mw", 52_500, 52.5),
        ("mj", 1, 0.001),
        ("ms", 61_250, 61.25),
        ("mhz", 1980, 1.98e9),
        ("c", -5.0, -5.0),
        ("bytes", 2**40, 2.0**40),
    ],
)
def test_conversion_is_exact(unit, value, shown):
    """No rounding dust: 57 % is 0.57."""
    assert quantities.UNITS[unit].of(value) == shown


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400])
def test_what_is_no_number_is_not_shown(value):
    """A value that slipped through all checks still spoils no page."""
    assert quantities.PLAIN.of(value) is None
