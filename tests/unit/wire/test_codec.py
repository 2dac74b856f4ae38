"""The codec: what is written can be read, what is wrong is refused by kind."""

import math
from pathlib import Path

import jsonschema
import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import strategies
from tests.unit.wire import examples
from wire import codec, errors, sample, schemas

VALIDATOR = jsonschema.Draft202012Validator(schemas.schema(sample.Envelope))
GOLDEN = Path(__file__).parent / "golden"


@given(strategies.envelopes)
def test_round_trip(envelope: sample.Envelope) -> None:
    """Any envelope reads back equal, whole or put together from records encoded before."""
    again = codec.decode_envelope(codec.encode(envelope))
    pieces = codec.encode_envelope(
        cluster=envelope.cluster,
        node=envelope.node,
        epoch=envelope.epoch,
        sent_unix_ms=envelope.sent_unix_ms,
        records=[codec.encode(record) for record in envelope.records],
    )

    assert again == envelope
    assert codec.decode_envelope(pieces) == envelope
    assert pieces == codec.encode(envelope)


@given(strategies.envelopes)
def test_second_opinion(envelope: sample.Envelope) -> None:
    """What the codec writes, an independent JSON Schema validator takes."""
    VALIDATOR.validate(orjson.loads(codec.encode(envelope)))


@pytest.mark.parametrize("kind", sorted(examples.EXAMPLES))
def test_golden_bytes(kind: str) -> None:
    """The bytes of version 1 are fixed: a change here is a new version of the contract."""
    example = examples.EXAMPLES[kind]
    golden = (GOLDEN / f"{kind}.v1.json").read_bytes().rstrip(b"\n")

    assert golden == codec.encode(example)
    assert example == codec.decode(golden, type(example))


@given(st.binary(max_size=200) | st.text(max_size=50).map(str.encode))
def test_nonsense_is_refused(data: bytes) -> None:
    """No bytes make the decoder do anything but answer or raise `WireError`."""
    with pytest.raises(errors.WireError):
        codec.decode_envelope(data)


def _with(**changes: object) -> bytes:
    good = msgspec.to_builtins(examples.EXAMPLES["sample"])
    return orjson.dumps({**good, **changes})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no-value"),
        (None, "no-value"),
        (b"\xff\xfe", "malformed"),
        (b"[]", "malformed"),
        (b'{"v":1}', "malformed"),
        (_with(v=2), "unknown-version"),
        (_with(v=True), "unknown-version"),
        (_with(v=None), "unknown-version"),
        (_with(node="a/b"), "malformed"),
        (_with(cluster="+"), "malformed"),
        (_with(records=[{"kind": "song"}]), "malformed"),
        (b'{"v":1,"cluster":"c","node":"n","x":NaN}', "malformed"),
    ],
)
def test_refusals_have_a_reason(data: bytes | None, reason: str) -> None:
    """BR-84, BR-91: each kind of wrong message is refused by its own reason."""
    with pytest.raises(errors.WireError) as refused:
        codec.decode_envelope(data)

    assert reason == refused.value.reason


def test_newer_program_may_say_more() -> None:
    """Unknown fields are ignored."""
    assert codec.decode_envelope(_with(novelty=1)) == examples.EXAMPLES["sample"]


def test_no_nan_is_ever_written() -> None:
    """BR-84: a NaN that slipped through becomes null, never the bare word."""
    gpu = sample.Gpu(uuid="g", power_mw=None, temperature_c=math.nan)

    assert orjson.loads(codec.encode(gpu))["temperature_c"] is None


@pytest.mark.parametrize("ranges", [[[3, 2]], [[1, 2], [2, 3]], [[5, 6], [1, 2]], [[0, 1]]])
def test_confirmation_ranges_ascend(ranges: list[list[int]]) -> None:
    """A confirmation whose ranges overlap or descend is refused."""
    data = orjson.dumps({"v": 1, "epoch": examples.EPOCH, "ranges": ranges})

    with pytest.raises(errors.WireError):
        codec.decode_confirmation(data)


@given(strategies.records)
def test_spooled_record_reads_back(record: sample.Record) -> None:
    """A record as the spool keeps it reads back equal; rubbish is refused."""
    assert codec.decode_record(codec.encode(record)) == record

    for rubbish in (b"{", b'{"kind":"song"}'):
        with pytest.raises(errors.WireError):
            codec.decode_record(rubbish)


def test_schema_files_are_current() -> None:
    """`wire/schema/` holds what the code says; `windvane schema` writes it."""
    folder = Path(schemas.__file__).parent / "schema"

    assert schemas.files() == {f.name: f.read_bytes() for f in folder.glob("*.json")}
