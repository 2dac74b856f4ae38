"""Where things are said: MQTT topics, Kafka topics, keys, headers.

MQTT: `windvane/v1/{cluster}/{node}/{lane}`. Kafka: one topic per lane, so that a
returning node's backlog never stands before anyone's fresh data; the four input
topics have one key (`cluster/node`) and one partition count, so that one worker
sees all of a node.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import Final, Literal, get_args

from msgspec import Struct

from wire.errors import WireError
from wire.names import check_cluster, check_node, node_key
from wire.sample import Envelope, Status

Lane = Literal["live", "backlog", "events", "status"]
LANES: Final[tuple[Lane, ...]] = get_args(Lane)
MQTT_ROOT: Final = "windvane/v1"
CONTENT_TYPE: Final = "application/json"

LIVE: Final = "windvane.live.v1"
BACKLOG: Final = "windvane.backlog.v1"
EVENTS: Final = "windvane.events.v1"
STATUS: Final = "windvane.status.v1"
AGGREGATES: Final = "windvane.aggregates.v1"
VERDICTS: Final = "windvane.verdicts.v1"
DECISIONS: Final = "windvane.decisions.v1"
LOSSES: Final = "windvane.losses.v1"
DEAD_LETTERS: Final = "windvane.dead-letters.v1"

KAFKA_TOPIC_OF_LANE: Final[Mapping[Lane, str]] = {
    "live": LIVE,
    "backlog": BACKLOG,
    "events": EVENTS,
    "status": STATUS,
}

DAY_MS: Final = 86_400_000


class TopicSpec(Struct, frozen=True, kw_only=True):
    """The shape a Kafka topic must have."""

    name: str
    partitions: int
    compacted: bool
    retention_ms: int


def topic_specs(partitions: int) -> tuple[TopicSpec, ...]:
    """Every topic of ours. All have one partition count; compacted ones keep the last word."""
    retention_days = {
        LIVE: 1,
        BACKLOG: 3,
        EVENTS: 30,
        STATUS: 7,
        AGGREGATES: 30,
        VERDICTS: 7,
        DECISIONS: 90,
        LOSSES: 90,
        DEAD_LETTERS: 30,
    }
    return tuple(
        TopicSpec(
            name=name,
            partitions=partitions,
            compacted=name == VERDICTS,
            retention_ms=days * DAY_MS,
        )
        for name, days in retention_days.items()
    )


def topic_problems(specs: Iterable[TopicSpec], partitions: Mapping[str, int]) -> list[str]:
    """What metadata shows to be wrong: one line for each topic, naming both counts.

    `partitions` is the number of partitions of each topic that exists.
    """
    problems = []
    for spec in specs:
        found = partitions.get(spec.name)
        if found is None:
            problems.append(f"topic {spec.name} is missing ({spec.partitions} partitions needed)")
        elif found != spec.partitions:
            problems.append(
                f"topic {spec.name} has {found} partitions, must have {spec.partitions}"
            )
    return problems


def mqtt_topic(cluster: str, node: str, lane: Lane | Literal["confirmed"]) -> str:
    """The MQTT topic of a lane; raises `WireError` for names that may not be in one."""
    return f"{MQTT_ROOT}/{check_cluster(cluster)}/{check_node(node)}/{lane}"


def shared_filters(group: str) -> tuple[str, ...]:
    """What a bridge subscribes to: one shared subscription for each upward lane."""
    return tuple(f"$share/{group}/{MQTT_ROOT}/+/+/{lane}" for lane in LANES)


def parse_mqtt_topic(topic: str) -> tuple[str, str, Lane]:
    """(cluster, node, lane) of an upward topic; raises `WireError` for a foreign one."""
    parts = topic.split("/")
    if len(parts) != 5 or "/".join(parts[:2]) != MQTT_ROOT or parts[4] not in LANES:
        raise WireError("foreign-topic", f"{topic!r} is not {MQTT_ROOT}/cluster/node/lane")
    return check_cluster(parts[2]), check_node(parts[3]), parts[4]


def to_ranges(seqs: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Ascending, disjoint closed ranges that hold just these seqs."""
    ranges: list[tuple[int, int]] = []
    for seq in sorted(set(seqs)):
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return tuple(ranges)


def seqs_text(seqs: Iterable[int]) -> str:
    """Seqs as they stand in an id: ranges, `7-9,12`; empty for none."""
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in to_ranges(seqs))


def event_id(envelope: Envelope) -> str:
    """The id of a message: the same records have the same id wherever they are seen.

    `cluster/node/epoch/seqs`, seqs as ranges (`7`, `7-9`, `7-9,12`); a status has its
    time in the place of seqs, because it is not counted.
    """
    tail = seqs_text(r.seq for r in envelope.records if not isinstance(r, Status))
    if not tail:
        times = [r.ts_unix_ms for r in envelope.records]
        tail = f"status-{max(times, default=envelope.sent_unix_ms)}"
    return f"{node_key(envelope.cluster, envelope.node)}/{envelope.epoch}/{tail}"


def partition_of(key: str, partitions: int) -> int:
    """The partition that owns `key` where we choose it ourselves (verdicts, by pool)."""
    return zlib.crc32(key.encode()) % partitions
