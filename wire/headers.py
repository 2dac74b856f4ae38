"""Kafka record headers: CloudEvents in binary form, and where a dead letter came from.

Source of the names: CloudEvents Kafka protocol binding 1.0.2 (2026-12-01): attributes
are headers with the prefix `ce_`, the media type is `content-type`.
"""

from datetime import UTC, datetime
from typing import Final

from wire.errors import WireError
from wire.names import node_key
from wire.topics import CONTENT_TYPE

Headers = list[tuple[str, bytes]]

TYPE_PREFIX: Final = "io.windvane"
HEAD_BYTES_MAX: Final = 4096


def cloud_event(*, event_id: str, cluster: str, node: str, kind: str, time_unix_ms: int) -> Headers:
    """Headers of one record; `kind` is a lane or the name of what the record tells."""
    time = datetime.fromtimestamp(time_unix_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return [
        ("ce_specversion", b"1.0"),
        ("ce_id", event_id.encode()),
        ("ce_source", f"/windvane/{node_key(cluster, node)}".encode()),
        ("ce_type", f"{TYPE_PREFIX}.{kind}.v1".encode()),
        ("ce_time", time.replace("+00:00", "Z").encode()),
        ("content-type", CONTENT_TYPE.encode()),
    ]


def dead_letter(*, error: WireError, origin: str, size_bytes: int, sha256: str) -> Headers:
    """Headers of a record that was refused: why, whence, and what it was, even if cut short."""
    return [
        ("windvane_reason", error.reason.encode()),
        ("windvane_detail", error.detail[:1024].encode(errors="replace")),
        ("windvane_origin", origin[:1024].encode(errors="replace")),
        ("windvane_size_bytes", str(size_bytes).encode()),
        ("windvane_sha256", sha256.encode()),
    ]
