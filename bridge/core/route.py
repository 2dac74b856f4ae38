"""Where an MQTT message goes: on to its lane's Kafka topic, or to the dead letters.

Kafka gets the payload as it came, byte for byte; it is decoded only to be judged. What
cannot be judged or does not fit becomes a dead letter with its reason and origin, so
that a bad message never stands before good ones.

A message makes a claim: which seqs of which node it carries. When Kafka holds the
message, on its lane's topic or among the dead letters, the claim is confirmed to the
node. So a claim is believed only from a message whose node is its topic's node, and it
is looked for even in a message that is malformed otherwise: else the agent would send
it again for ever.
"""

import hashlib
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from wire import codec, headers, names, sample, topics
from wire.errors import Reason, WireError

FRAME_BYTES: Final = 128


class Claim(Struct, frozen=True):
    """Seqs that a message carries, as ascending closed ranges."""

    cluster: str
    node: str
    epoch: str
    ranges: tuple[tuple[int, int], ...]


class Forward(Struct, frozen=True, kw_only=True):
    """A record for the Kafka topic of its lane; `claim` is None when it carries no seq."""

    topic: str
    key: bytes
    headers: headers.Headers
    value: bytes
    lane: topics.Lane
    origin: str
    claim: Claim | None


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A record for the dead letters; `is_cut` when the value is only the payload's head."""

    topic: str = topics.DEAD_LETTERS
    key: bytes
    headers: headers.Headers
    value: bytes
    reason: Reason
    detail: str
    origin: str
    claim: Claim | None
    is_cut: bool


Routed = Forward | DeadLetter


class _Numbered(Struct):
    seq: Annotated[int, Meta(ge=1, le=2**53)] | None = None


class _Claimed(Struct):
    v: int
    cluster: names.ClusterName
    node: names.NodeName
    epoch: names.Epoch
    records: tuple[_Numbered, ...]


def route(topic: str, payload: bytes, message_bytes_max: int) -> Routed:
    """The record to write for a message."""
    try:
        return _forward(topic, payload, message_bytes_max)
    except WireError as error:
        claim = _claim_in(topic, payload)
        return _dead_letter(topic, payload, error, claim, message_bytes_max)


def refused_as_too_large(routed: Routed) -> DeadLetter | None:
    """What to write instead of a record that Kafka found too large; None when nothing is left."""
    if isinstance(routed, DeadLetter):
        if not routed.value:
            return None
        keep = 0 if routed.is_cut else headers.HEAD_BYTES_MAX
        return msgspec.structs.replace(routed, value=routed.value[:keep], is_cut=True)
    error = WireError("oversize", f"Kafka refused {len(routed.value)} bytes as too large")
    return _dead_letter(routed.origin, routed.value, error, routed.claim, 0)


def internal_error(topic: str, payload: bytes, detail: str, message_bytes_max: int) -> DeadLetter:
    """For a message that made the bridge itself fail: it must not do so again and again."""
    error = WireError("malformed", f"the bridge could not judge it: {detail}")
    return _dead_letter(topic, payload, error, None, message_bytes_max)


def _forward(topic: str, payload: bytes, message_bytes_max: int) -> Forward:
    cluster, node, lane = topics.parse_mqtt_topic(topic)
    envelope = codec.decode_envelope(payload)
    if envelope.cluster != cluster or envelope.node != node:
        raise WireError(
            "foreign-node",
            f"of {envelope.cluster}/{envelope.node}, sent on the topic of {cluster}/{node}",
        )
    seqs = [r.seq for r in envelope.records if not isinstance(r, sample.Status)]
    claim = Claim(cluster, node, envelope.epoch, topics.to_ranges(seqs)) if seqs else None
    forward = Forward(
        topic=topics.KAFKA_TOPIC_OF_LANE[lane],
        key=names.node_key(cluster, node).encode(),
        headers=headers.cloud_event(
            event_id=topics.event_id(envelope),
            cluster=cluster,
            node=node,
            kind=lane,
            time_unix_ms=envelope.sent_unix_ms,
        ),
        value=payload,
        lane=lane,
        origin=topic,
        claim=claim,
    )
    size = size_bytes(forward)
    if size > message_bytes_max:
        raise WireError("oversize", f"{size} bytes as a record, {message_bytes_max} allowed")
    return forward


def _claim_in(topic: str, payload: bytes) -> Claim | None:
    """The claim of a message that is wrong in another way, if it can be believed."""
    try:
        cluster, node, _ = topics.parse_mqtt_topic(topic)
        claimed = msgspec.json.decode(payload, type=_Claimed)
    except (WireError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if claimed.v != sample.VERSION or (claimed.cluster, claimed.node) != (cluster, node):
        return None
    seqs = [record.seq for record in claimed.records if record.seq is not None]
    return Claim(cluster, node, claimed.epoch, topics.to_ranges(seqs)) if seqs else None


def _dead_letter(
    topic: str, payload: bytes, error: WireError, claim: Claim | None, message_bytes_max: int
) -> DeadLetter:
    letter = DeadLetter(
        key=topic.encode(errors="replace")[:1024],
        headers=headers.dead_letter(
            error=error,
            origin=topic,
            size_bytes=len(payload),
            sha256=hashlib.sha256(payload).hexdigest(),
        ),
        value=payload,
        reason=error.reason,
        detail=error.detail,
        origin=topic,
        claim=claim,
        is_cut=False,
    )
    if error.reason == "oversize" or size_bytes(letter) > message_bytes_max:
        return msgspec.structs.replace(letter, value=payload[: headers.HEAD_BYTES_MAX], is_cut=True)
    return letter


def size_bytes(record: Routed) -> int:
    """What a record weighs in Kafka, at most: value, key, headers and the frame around them."""
    weight = len(record.value) + len(record.key) + FRAME_BYTES
    for name, value in record.headers:
        weight += len(name) + len(value) + 10
    return weight
