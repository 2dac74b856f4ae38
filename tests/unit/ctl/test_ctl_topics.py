"""The configuration of our topics."""

from ctl import topics
from wire import topics as wire_topics


def test_compaction_is_hard_and_only_for_verdicts() -> None:
    """Verdicts keep the last word of each node and are compacted soon; the rest ends by age."""
    for spec in wire_topics.topic_specs(4):
        config = topics.config_of(spec)
        if spec.name == wire_topics.VERDICTS:
            assert config["cleanup.policy"] == "compact"
            assert config["segment.ms"] == "60000"
            assert float(config["min.cleanable.dirty.ratio"]) <= 0.1
        else:
            assert config["cleanup.policy"] == "delete"
            assert config["retention.ms"] == str(spec.retention_ms)


def test_records_of_the_bridge_fit() -> None:
    """BR-82: the bridge's default limit is below what the topics take."""
    assert topics.MESSAGE_BYTES_MAX > 900_000


def test_configuration_that_loses_records_is_named() -> None:
    """A compacted events topic, or a shorter retention, is a problem; a longer one is not."""
    (events,) = (s for s in wire_topics.topic_specs(1) if s.name == wire_topics.EVENTS)
    right = dict(topics.config_of(events))
    short = {**right, "retention.ms": "60000"}
    long = {**right, "retention.ms": str(10 * events.retention_ms)}

    assert topics.config_problems(events, right) == []
    assert topics.config_problems(events, long) == []
    assert topics.config_problems(events, {**right, "retention.ms": "-1"}) == []
    assert topics.config_problems(events, short) == [
        f"topic {events.name}: retention.ms is 60000, must be {events.retention_ms} or more"
    ]
    assert topics.config_problems(events, {**right, "cleanup.policy": "compact"}) == [
        f"topic {events.name}: cleanup.policy is compact, must be delete"
    ]
