"""The tables behind the shells, and how a table is written beside the stream.

Three tables, each with a compacted changelog in Kafka and a copy on disk (RocksDB) or in
memory: `node-state`, `windows` (closed ones, for records that come late) and
`pool-state`. Keys and values are bytes. Values are msgspec JSON, deflated: the changelog
is what a restart has to read, and a pool of some thousand nodes must stay below the
broker's message limit.

Faust takes the partition of a table write from the event in hand and refuses a write
without one. We write once a flush, for many events together, so `at_partition` stands in
for the event. It sets the context variable that Faust's own streams set.

The store is set on the app (`store_url`), not on the table: Faust takes a table's
`store="rocksdb://"` for nothing said, because a URL without host and path is false, and
quietly uses the app's.
"""

import contextlib
import weakref
import zlib
from collections.abc import Iterator
from typing import Any, TypeVar

import faust
import faust.streams
import msgspec

from cloud_processor import config

S = TypeVar("S", bound=msgspec.Struct)

NODE_STATE = "node-state"
WINDOWS = "windows"
POOL_STATE = "pool-state"
NAMES = (NODE_STATE, WINDOWS, POOL_STATE)

CHANGELOG_CONFIG = {
    "segment.ms": "60000",
    "min.cleanable.dirty.ratio": "0.05",
    "max.compaction.lag.ms": "600000",
}
ROCKSDB_OPTIONS = {
    "driver": "rocksdict",
    "max_open_files": 64,
    "write_buffer_size": 4 * 1024**2,
    "max_write_buffer_number": 2,
    "target_file_size_base": 8 * 1024**2,
    "block_cache_size": 4 * 1024**2,
}


class Place:
    """What Faust looks at in an event: where it came from.

    It has no topic name, because Faust would compare that topic's partitions with the
    changelog's in a snapshot of the metadata that may be older than the changelog, and end
    the worker. The counts are checked at the start instead (`log.check_topics`).
    """

    topic = ""

    def __init__(self, partition: int) -> None:
        self.partition = partition

    @property
    def message(self) -> "Place":
        return self


@contextlib.contextmanager
def at_partition(partition: int) -> Iterator[None]:
    """Within, tables are read and written as if an event of that partition were in hand."""
    place = Place(partition)
    current = faust.streams._current_event  # noqa: SLF001 - the one place it can be set
    token = current.set(weakref.ref(place))  # type: ignore[arg-type]
    try:
        yield
    finally:
        current.reset(token)


def store_url(settings: config.Settings) -> str:
    """The app's store, which all tables use."""
    return "rocksdb://" if settings.state.store == "rocksdb" else "memory://"


def table(app: faust.App, name: str, settings: config.Settings) -> Any:
    """A table of bytes; its changelog topic is made by Faust with our partition count."""
    on_disk = settings.state.store == "rocksdb"
    return app.Table(
        name,
        key_type=bytes,
        value_type=bytes,
        partitions=settings.kafka.partitions,
        options=dict(ROCKSDB_OPTIONS) if on_disk else None,
        extra_topic_configs=CHANGELOG_CONFIG,
    )


def pack(state: msgspec.Struct) -> bytes:
    """A state as it lies in a table."""
    return zlib.compress(msgspec.json.encode(state), 1)


def unpack(data: bytes, shape: type[S]) -> S:
    """The state that `pack` has written."""
    return msgspec.json.decode(zlib.decompress(data), type=shape)
