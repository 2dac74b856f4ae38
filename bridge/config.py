"""Settings of the bridge: their names, units, defaults and why these."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from wire import settings

Port = Annotated[int, Meta(ge=1, le=65_535)]
PortOrOff = Annotated[int, Meta(ge=0, le=65_535)]
Positive = Annotated[int, Meta(ge=1)]
ClientId = Annotated[str, Meta(pattern=r"^[-._A-Za-z0-9]*$", max_length=128)]
GroupName = Annotated[str, Meta(pattern=r"^[-._A-Za-z0-9]+$", max_length=128)]


class Mqtt(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The broker, and our session there.

    `client_id` names the session that the broker keeps while we are away, so each replica
    needs its own and keeps it over restarts: the pod's name in a StatefulSet. Replicas
    with one `group` share the messages. `receive_maximum` bounds what is in our hands:
    messages received and not yet in Kafka.
    """

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 1883
    keepalive_s: Annotated[int, Meta(ge=1, le=3600)] = 10
    username: str = ""
    password_file: str = ""
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    client_id: ClientId = ""
    group: GroupName = "windvane-bridge"
    session_expiry_s: Annotated[int, Meta(ge=60, le=4_294_967_295)] = 86_400
    receive_maximum: Annotated[int, Meta(ge=1, le=65_535)] = 500
    backoff_min_ms: Positive = 500
    backoff_max_ms: Positive = 60_000

    def __post_init__(self) -> None:
        """Refuse settings that are sound alone and wrong together."""
        if self.backoff_max_ms < self.backoff_min_ms:
            raise ValueError("backoff_max_ms must not be below backoff_min_ms")
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise ValueError("tls_cert_file and tls_key_file go together")


class Kafka(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log. `partitions` is checked against the topics at the start, never guessed.

    `message_bytes_max` bounds a whole record and must be below the topics'
    `max.message.bytes`. A producer that has no answer for `delivery_timeout_ms` is
    replaced. `start_timeout_ms` is how long Kafka may be away at the start.
    """

    bootstrap: Annotated[str, Meta(min_length=1)] = "127.0.0.1:9092"
    linger_ms: Annotated[int, Meta(ge=0, le=1000)] = 5
    message_bytes_max: Annotated[int, Meta(ge=16_384, le=100_000_000)] = 900_000
    partitions: Annotated[int, Meta(ge=1, le=1024)] = 8
    delivery_timeout_ms: Annotated[int, Meta(ge=1000)] = 30_000
    start_timeout_ms: Positive = 30_000


class Confirm(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a node is told what Kafka holds; agents send again what is not confirmed."""

    interval_ms: Annotated[int, Meta(ge=10, le=60_000)] = 1000


class Web(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """/healthz, /readyz and /metrics; `port` 0 turns them off.

    A message that Kafka has not taken for `stalled_ms` makes the bridge unhealthy.
    """

    host: str = "127.0.0.1"
    port: PortOrOff = 9518
    stalled_ms: Annotated[int, Meta(ge=1000)] = 90_000


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole bridge."""

    mqtt: Mqtt = Mqtt()
    kafka: Kafka = Kafka()
    confirm: Confirm = Confirm()
    web: Web = Web()


def load(file: str, environ: Mapping[str, str]) -> Settings:
    """Settings from a TOML file (none when `file` is empty) and the environment."""
    table: dict[str, Any] = {}
    if file:
        try:
            table = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except OSError as error:
            raise settings.Problems([f"{file}: {error.strerror or error}"]) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise settings.Problems([f"{file}: not TOML: {error}"]) from error
    return read(table, environ)


def read(table: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Settings from a table and the environment; raises `wire.settings.Problems`."""
    merged = dict(table)
    lines: list[str] = []
    mqtt = merged.get("mqtt", {})
    if isinstance(mqtt, Mapping) and not _client_id(mqtt, environ):
        pod_name = environ.get("POD_NAME", "")
        if pod_name:
            merged["mqtt"] = {**mqtt, "client_id": pod_name}
        else:
            lines.append(
                "mqtt.client_id: missing: set it, or POD_NAME from the downward API; "
                "two bridges with one id throw each other out, so it is not guessed"
            )
    try:
        found = settings.read(Settings, merged, environ)
    except settings.Problems as problems:
        raise settings.Problems([*problems.lines, *lines]) from problems
    if lines:
        raise settings.Problems(lines)
    return found


def _client_id(mqtt: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
    return environ.get("WINDVANE__MQTT__CLIENT_ID") or mqtt.get("client_id")
