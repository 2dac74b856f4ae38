"""Topics, keys, ids and headers."""

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import strategies
from tests.unit.wire import examples
from wire import codec, errors, headers, names, sample, topics


@given(strategies.names, strategies.names, st.sampled_from(topics.LANES))
def test_topic_round_trip(cluster: str, node: str, lane: topics.Lane) -> None:
    """A topic tells its cluster, node and lane, and its key splits back."""
    assert (cluster, node, lane) == topics.parse_mqtt_topic(topics.mqtt_topic(cluster, node, lane))
    assert (cluster, node) == names.split_node_key(names.node_key(cluster, node))


@pytest.mark.parametrize(
    "name", ["", "+", "#", "a/b", "a\n", "A", "a b", "-a", "a-", "a" * 254, "a..b", "a\x00"]
)
def test_dangerous_names_never_enter_a_topic(name: str) -> None:
    """Names with wildcards, slashes, control characters or undue length are refused, rule named."""
    with pytest.raises(errors.WireError, match="RFC 1123"):
        topics.mqtt_topic("plant-7", name, "live")
    with pytest.raises(errors.WireError, match="RFC 1123"):
        topics.mqtt_topic(name, "edge-01", "live")


@pytest.mark.parametrize(
    "topic",
    [
        "windvane/v1/c/n/confirmed",
        "windvane/v2/c/n/live",
        "windvane/v1/c/live",
        "other/v1/c/n/live",
        "windvane/v1/c/n/live/x",
        "windvane/v1//n/live",
        "",
    ],
)
def test_foreign_topics_are_refused(topic: str) -> None:
    """What is not an upward lane of ours is foreign, or has a bad name."""
    with pytest.raises(errors.WireError):
        topics.parse_mqtt_topic(topic)


def test_key_without_slash_is_refused() -> None:
    """A key must be cluster/node."""
    with pytest.raises(errors.WireError):
        names.split_node_key("edge-01")


@given(st.lists(st.integers(1, 50), max_size=40))
def test_ranges_hold_just_the_seqs(seqs: list[int]) -> None:
    """Ranges ascend, never touch, and hold exactly what was put in."""
    ranges = topics.to_ranges(seqs)

    assert {s for a, b in ranges for s in range(a, b + 1)} == set(seqs)
    assert all(b1 + 1 < a2 for (_, b1), (a2, _) in itertools.pairwise(ranges))


def test_event_id_is_deterministic() -> None:
    """The id depends on the records alone: not on when or how often they were sent."""
    one = examples.EXAMPLES["sample"]
    assert isinstance(one, sample.Envelope)
    later = msgspec.structs.replace(one, sent_unix_ms=5)
    gap = sample.Envelope(
        v=1,
        cluster="c",
        node="n",
        epoch=examples.EPOCH,
        sent_unix_ms=1,
        records=tuple(
            sample.Sample(seq=s, ts_unix_ms=1, interval_ms=1, gpus=()) for s in (9, 7, 8, 12)
        ),
    )

    assert topics.event_id(one) == f"plant-7/edge-01/{examples.EPOCH}/7"
    assert topics.event_id(one) == topics.event_id(later)
    assert topics.event_id(gap) == f"c/n/{examples.EPOCH}/7-9,12"
    assert topics.event_id(examples.envelope(examples.STATUS)).endswith(f"/status-{examples.TS}")


def test_lanes_have_topics_of_one_shape() -> None:
    """The four input topics have one partition count; only verdicts are compacted."""
    specs = {s.name: s for s in topics.topic_specs(6)}

    assert set(topics.KAFKA_TOPIC_OF_LANE) == set(topics.LANES)
    assert {s.partitions for s in specs.values()} == {6}
    assert [n for n, s in specs.items() if s.compacted] == [topics.VERDICTS]
    assert topics.shared_filters("g")[0] == "$share/g/windvane/v1/+/+/live"


def test_topic_problems_name_both_counts() -> None:
    """BR-94: a topic that is missing or has another shape is named with both counts."""
    specs = topics.topic_specs(8)
    right = {s.name: 8 for s in specs}
    wrong = {**right, topics.LIVE: 1}
    del wrong[topics.LOSSES]

    assert topics.topic_problems(specs, right) == []
    assert topics.topic_problems(specs, wrong) == [
        "topic windvane.live.v1 has 1 partitions, must have 8",
        "topic windvane.losses.v1 is missing (8 partitions needed)",
    ]


@given(st.text(max_size=30), st.integers(1, 64))
def test_partition_is_stable_and_in_range(key: str, partitions: int) -> None:
    """The partition of a key is always the same and always one that exists."""
    chosen = topics.partition_of(key, partitions)

    assert 0 <= chosen < partitions
    assert chosen == topics.partition_of(key, partitions)


def test_cloud_event_headers() -> None:
    """CloudEvents attributes in Kafka's binary form, time in RFC 3339 UTC."""
    made = dict(
        headers.cloud_event(
            event_id="c/n/e/1", cluster="c", node="n", kind="live", time_unix_ms=1_790_000_000_123
        )
    )

    assert made["ce_id"] == b"c/n/e/1"
    assert made["ce_specversion"] == b"1.0"
    assert made["ce_time"].endswith(b".123Z")
    assert made["content-type"] == b"application/json"


def test_dead_letter_headers_are_bounded() -> None:
    """However long the error, its headers stay small; odd characters do not break them."""
    error = errors.WireError("malformed", "x" * 5000 + "\udce4")
    made = dict(headers.dead_letter(error=error, origin="o" * 5000, size_bytes=9, sha256="ab"))

    assert made["windvane_reason"] == b"malformed"
    assert all(len(v) <= 1024 for v in made.values())
    assert made["windvane_size_bytes"] == b"9"


def test_codec_is_the_one_way() -> None:
    """An envelope in a topic of its own names decodes to those names."""
    envelope = codec.decode_envelope(codec.encode(examples.EXAMPLES["event"]))
    cluster, node, _ = topics.parse_mqtt_topic(
        topics.mqtt_topic(envelope.cluster, envelope.node, "events")
    )

    assert (cluster, node) == (envelope.cluster, envelope.node)
