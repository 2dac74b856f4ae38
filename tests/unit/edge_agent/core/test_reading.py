"""The vocabulary between sources and agent, and the contract, say the same words."""

import msgspec

from edge_agent.core import reading
from wire import sample

NOT_READ = {"uuid", "state", "processes", "errors"}


def test_readable_fields_are_those_of_the_contract():
    """A field that the contract gains and no source can name would be silently null."""
    fields = {field.name for field in msgspec.structs.fields(sample.Gpu)}

    assert set(reading.READABLE_FIELDS) == fields - NOT_READ


def test_unsupported_and_failed_are_never_values():
    """Neither can be mistaken for a reading, nor for each other."""
    assert reading.Unsupported() == reading.UNSUPPORTED
    assert reading.Failed("timeout") != reading.UNSUPPORTED
    assert reading.Failed("a") != reading.Failed("b")
