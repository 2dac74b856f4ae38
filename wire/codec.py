"""Bytes to contract and back: orjson for the text, msgspec for the shape.

Encoding is strict (no NaN can be written: orjson has only `null` for it, and the
agent keeps such values out before). Decoding refuses with a `WireError` whose
reason says what kind of wrong it was; unknown fields are ignored, so that a newer
program may say more, and an unknown version is refused, because its words may mean
something else.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
import orjson

from wire.errors import WireError
from wire.sample import VERSION, Confirmation, Envelope, Record

T = TypeVar("T", bound=msgspec.Struct)


def encode(value: msgspec.Struct) -> bytes:
    """UTF-8 JSON of any struct of the contract."""
    return orjson.dumps(value, default=msgspec.to_builtins)


def encode_envelope(
    *, cluster: str, node: str, epoch: str, sent_unix_ms: int, records: Iterable[bytes]
) -> bytes:
    """An envelope around records that are encoded already (as the spool keeps them)."""
    return orjson.dumps(
        {
            "v": VERSION,
            "cluster": cluster,
            "node": node,
            "epoch": epoch,
            "sent_unix_ms": sent_unix_ms,
            "records": [orjson.Fragment(record) for record in records],
        }
    )


def decode(data: bytes | None, shape: type[T]) -> T:
    """Any versioned message of the contract; raises `WireError`."""
    if not data:
        raise WireError("no-value", "the message is empty")
    try:
        raw: Any = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise WireError("malformed", f"not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise WireError("malformed", f"a {type(raw).__name__} where an object must be")
    version = raw.get("v")
    if version != VERSION or isinstance(version, bool):
        raise WireError("unknown-version", f"v is {version!r}, this program knows {VERSION}")
    try:
        return msgspec.convert(raw, shape)
    except msgspec.ValidationError as error:
        raise WireError("malformed", str(error)) from error


def decode_envelope(data: bytes | None) -> Envelope:
    """An envelope; raises `WireError`."""
    return decode(data, Envelope)


def decode_record(data: bytes) -> Record:
    """One record as the spool keeps it; raises `WireError`."""
    try:
        return msgspec.convert(orjson.loads(data), Record)  # type: ignore[no-any-return]
    except (orjson.JSONDecodeError, msgspec.ValidationError) as error:
        raise WireError("malformed", str(error)) from error


def decode_confirmation(data: bytes | None) -> Confirmation:
    """A confirmation whose ranges ascend and do not overlap; raises `WireError`."""
    confirmation = decode(data, Confirmation)
    last = 0
    for first, end in confirmation.ranges:
        if first <= last or end < first:
            raise WireError("malformed", f"range {first}-{end} after {last}: not ascending")
        last = end
    return confirmation
