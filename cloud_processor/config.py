"""What a person may set, with its unit in the name and its reason beside the default."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from cloud_processor.core import policy as policies
from wire import settings
from wire.names import CLUSTER_PATTERN

Port = Annotated[int, Meta(ge=0, le=65535)]
Instance = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]


class Kafka(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log. `partitions` is checked against the topics at the start, never guessed."""

    bootstrap: Annotated[str, Meta(min_length=1)] = "127.0.0.1:9092"
    partitions: Annotated[int, Meta(ge=1, le=1024)] = 8


class Web(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The JSON API, `/healthz` and `/metrics`, for the whole fleet from any worker."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535)] = 6066


class Kube(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cluster whose nodes are steered.

    `off` counts every node that reports as known, in pool `default`, and steers nothing.
    `cluster` names the one cluster this API server holds, when others report to the same
    Kafka: nodes of other clusters are then shown and never steered. Empty means that all
    that report are here.
    """

    mode: Literal["off", "kubeconfig", "in-cluster"] = "off"
    kubeconfig: str = ""
    dry_run: bool = True
    cluster: Annotated[str, Meta(pattern=rf"^$|{CLUSTER_PATTERN}")] = ""


class State(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where state is kept between changelog and restart, and how often it is written.

    A write for each message would make the changelog as large as the input and a restart
    take minutes; `flush_ms` is also how much is read twice after a kill.
    """

    store: Literal["rocksdb", "memory"] = "rocksdb"
    flush_ms: Annotated[int, Meta(ge=100, le=60_000)] = 10_000


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The processor. `instance` is the consumer group: workers that share it share the work."""

    instance: Instance = "windvane"
    data_dir: Annotated[str, Meta(min_length=1)] = "/var/lib/windvane-processor"
    kafka: Kafka = Kafka()
    web: Web = Web()
    kube: Kube = Kube()
    state: State = State()
    policy: policies.Policy = policies.Policy()


def read(table: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Settings from a TOML table and the environment; raises `settings.Problems`."""
    return settings.read(Settings, table, environ)
