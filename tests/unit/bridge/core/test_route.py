"""Where messages go, and which claims are believed."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core import route
from support import strategies
from wire import codec, headers, sample, topics

LIMIT = 900_000
EPOCH = "0" * 16


def envelope(*seqs: int, node: str = "n1", v: int = 1, detail: str = "x") -> bytes:
    records = tuple(sample.Event(seq=seq, ts_unix_ms=1, event="xid", detail=detail) for seq in seqs)
    return codec.encode(
        sample.Envelope(
            v=v, cluster="c1", node=node, epoch=EPOCH, sent_unix_ms=1000, records=records
        )
    )


@pytest.mark.parametrize("lane", topics.LANES)
def test_forward(lane: topics.Lane) -> None:
    """A sound message goes to its lane's topic, byte for byte, keyed by its node."""
    payload = envelope(3, 4, 7)

    routed = route.route(f"windvane/v1/c1/n1/{lane}", payload, LIMIT)

    assert isinstance(routed, route.Forward)
    assert routed.topic == topics.KAFKA_TOPIC_OF_LANE[lane]
    assert routed.key == b"c1/n1"
    assert routed.value == payload
    assert routed.claim == route.Claim("c1", "n1", EPOCH, ((3, 4), (7, 7)))
    assert dict(routed.headers)["ce_id"] == f"c1/n1/{EPOCH}/3-4,7".encode()
    assert dict(routed.headers)["ce_type"] == f"io.windvane.{lane}.v1".encode()
    assert dict(routed.headers)["ce_time"] == b"1970-01-01T00:00:01.000Z"


def test_status_has_no_claim() -> None:
    """A status is not counted, so there is nothing to confirm."""
    status = sample.Status(ts_unix_ms=5, state="birth", agent_version="1")
    payload = codec.encode(
        sample.Envelope(
            v=1, cluster="c1", node="n1", epoch=EPOCH, sent_unix_ms=1, records=(status,)
        )
    )

    routed = route.route("windvane/v1/c1/n1/status", payload, LIMIT)

    assert isinstance(routed, route.Forward)
    assert routed.claim is None


NAN = envelope(1).replace(b'"ts_unix_ms":1', b'"ts_unix_ms":NaN')


@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        ("windvane/v1/c1/n1/live", b"", "no-value"),
        ("windvane/v1/c1/n1/status", b"", "no-value"),
        ("windvane/v1/c1/n1/live", b"\xff\xfe", "malformed"),
        ("windvane/v1/c1/n1/live", b"{", "malformed"),
        ("windvane/v1/c1/n1/live", b"[" * 100_000, "malformed"),
        ("windvane/v1/c1/n1/live", NAN, "malformed"),
        ("windvane/v1/c1/n1/live", envelope(1, v=2), "unknown-version"),
        ("windvane/v1/c1/n1/confirmed", envelope(1), "foreign-topic"),
        ("elsewhere", envelope(1), "foreign-topic"),
        ("windvane/v1/C_1/n1/live", envelope(1), "invalid-name"),
        ("windvane/v1/c1/n2/live", envelope(1), "foreign-node"),
    ],
)
def test_dead_letters(topic: str, payload: bytes, reason: str) -> None:
    """BR-67, BR-84: what cannot be judged is set aside whole, with reason, origin and hash."""
    routed = route.route(topic, payload, LIMIT)

    assert isinstance(routed, route.DeadLetter)
    assert routed.reason == reason
    assert routed.topic == topics.DEAD_LETTERS
    assert routed.key == topic.encode()
    assert routed.value == payload
    said = dict(routed.headers)
    assert said["windvane_reason"] == reason.encode()
    assert said["windvane_origin"] == topic.encode()
    assert said["windvane_size_bytes"] == str(len(payload)).encode()
    assert said["windvane_sha256"] == hashlib.sha256(payload).hexdigest().encode()


def test_oversize_is_cut() -> None:
    """BR-82: of a record that is too large only head and hash are kept; its seqs are known."""
    payload = envelope(*range(1, 1000), detail="y" * 1000)

    routed = route.route("windvane/v1/c1/n1/backlog", payload, LIMIT)

    assert isinstance(routed, route.DeadLetter)
    assert routed.reason == "oversize"
    assert routed.value == payload[: headers.HEAD_BYTES_MAX]
    assert routed.claim == route.Claim("c1", "n1", EPOCH, ((1, 999),))


def test_large_nonsense_is_cut() -> None:
    """A dead letter is never larger than Kafka takes, whatever its reason."""
    routed = route.route("windvane/v1/c1/n1/live", b"x" * 2_000_000, LIMIT)

    assert isinstance(routed, route.DeadLetter)
    assert routed.reason == "malformed"
    assert len(routed.value) == headers.HEAD_BYTES_MAX
    assert route.size_bytes(routed) < LIMIT


def test_refused_by_kafka() -> None:
    """BR-82: a record that Kafka refuses shrinks to a head, then to headers, then ends."""
    whole = route.route("windvane/v1/c1/n1/live", envelope(1, detail="z" * 1000), LIMIT)

    head = route.refused_as_too_large(whole)
    assert head is not None
    bare = route.refused_as_too_large(head)
    assert bare is not None

    assert head.reason == "oversize"
    assert head.claim == whole.claim
    assert whole.value.startswith(head.value)
    assert bare.value == b""
    assert route.refused_as_too_large(bare) is None


def test_a_large_dead_letter_keeps_its_reason() -> None:
    """A dead letter that Kafka finds too large is cut and still says why it is one."""
    letter = route.route("windvane/v1/c1/n1/live", b"x" * 10_000, LIMIT)

    cut = route.refused_as_too_large(letter)

    assert cut is not None
    assert cut.reason == "malformed"
    assert len(cut.value) == headers.HEAD_BYTES_MAX


def test_claim_of_a_malformed_message() -> None:
    """Seqs of a malformed message are known when its names and numbers are sound."""
    payload = envelope(5, 6).replace(b'"event":"xid"', b'"event":"nonsense"')

    routed = route.route("windvane/v1/c1/n1/events", payload, LIMIT)

    assert isinstance(routed, route.DeadLetter)
    assert routed.claim == route.Claim("c1", "n1", EPOCH, ((5, 6),))


@pytest.mark.parametrize(
    ("topic", "payload"),
    [
        ("windvane/v1/c1/n2/live", envelope(1)),
        ("windvane/v1/c1/n1/live", envelope(1, v=2)),
        ("windvane/v1/c1/n1/confirmed", envelope(1)),
        ("windvane/v1/c1/n1/live", b'{"v":1,"records":[{"seq":1}]}'),
        ("windvane/v1/c1/n1/live", b"null"),
    ],
)
def test_claims_not_believed(topic: str, payload: bytes) -> None:
    """Nobody can confirm for another node, nor what an unknown version may mean."""
    routed = route.route(topic, payload, LIMIT)

    assert isinstance(routed, route.DeadLetter)
    assert routed.claim is None


def test_internal_error() -> None:
    """A message that makes the bridge fail is set aside too."""
    letter = route.internal_error("windvane/v1/c1/n1/live", b"abc", "KeyError()", LIMIT)

    assert letter.reason == "malformed"
    assert "KeyError()" in letter.detail


@given(envelope=strategies.envelopes, lane=st.sampled_from(topics.LANES))
def test_any_sound_envelope_is_forwarded(envelope: sample.Envelope, lane: topics.Lane) -> None:
    """Whatever an agent may say on its own topic reaches its lane, and claims just its seqs."""
    payload = codec.encode(envelope)

    routed = route.route(f"windvane/v1/{envelope.cluster}/{envelope.node}/{lane}", payload, LIMIT)

    assert isinstance(routed, route.Forward)
    assert routed.value == payload
    seqs = {r.seq for r in envelope.records if not isinstance(r, sample.Status)}
    claimed = routed.claim.ranges if routed.claim else ()
    assert all(a in seqs and b in seqs for a, b in claimed)
    assert sum(b - a + 1 for a, b in claimed) == len(seqs)


@given(topic=st.text(max_size=60), payload=st.binary(max_size=200))
def test_nonsense_never_raises(topic: str, payload: bytes) -> None:
    """BR-67: no bytes on no topic make routing fail."""
    routed = route.route(topic, payload, LIMIT)

    assert isinstance(routed, route.DeadLetter)
