"""JSON Schema of everything the contract says, for those who read our topics without Python.

The files in `wire/schema/` are these, written by `windvane schema`; a test holds them equal.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson

from wire.aggregate import Aggregate
from wire.sample import Confirmation, Envelope
from wire.verdict import Decision, Verdict

SHAPES: Final[Mapping[str, type[msgspec.Struct]]] = {
    "envelope.v1.json": Envelope,
    "confirmation.v1.json": Confirmation,
    "aggregate.v1.json": Aggregate,
    "verdict.v1.json": Verdict,
    "decision.v1.json": Decision,
}


def schema(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of one message."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Windvane {shape.__name__}",
        **msgspec.json.schema(shape),
    }


def files() -> dict[str, bytes]:
    """File name to content, as they stand in `wire/schema/`."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS
    return {name: orjson.dumps(schema(shape), option=options) for name, shape in SHAPES.items()}
