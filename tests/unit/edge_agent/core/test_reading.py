"""The vocabulary between sources and agent, and the contract, say the same words."""

import msgspec

from edge_agent.core import reading
from wire import sample


def test_readable_fields_are_those_of_the_contract():
    """A field that the contract gains and no source can name would be silently null."""
    fields = {field.name for field in msgspec.structs.fields(sample.Gpu)}

    assert set(reading.READABLE_FIELDS) == fields - reading.OTHER_FIELDS
    assert fields >= reading.OTHER_FIELDS


def test_processes_and_instances_say_what_the_contract_can():
    """Every field of a process and of a MIG instance has its word in the vocabulary."""
    for raw, shape in ((reading.RawProcess, sample.Process), (reading.RawMig, sample.MigInstance)):
        assert raw.__struct_fields__ == shape.__struct_fields__


def test_unsupported_and_failed_are_never_values():
    """Neither can be mistaken for a reading, nor for each other."""
    assert reading.Unsupported() == reading.UNSUPPORTED
    assert reading.Failed("timeout") != reading.UNSUPPORTED
    assert reading.Failed("a") != reading.Failed("b")
