"""Settings of the agent: their names, units, defaults and why these.

`load` reads a TOML file and the environment and returns settings or every problem at
once. Nothing else of the agent is touched before that: a mistyped key must not cost a
backlog.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from wire import names, settings
from wire.errors import WireError

Positive = Annotated[int, Meta(ge=1)]
Port = Annotated[int, Meta(ge=1, le=65_535)]
PortOrOff = Annotated[int, Meta(ge=0, le=65_535)]


class Fleet(Struct, frozen=True, forbid_unknown_fields=True):
    """Many agents in one process, for demo, tests and load.

    `count` 0 means one agent, named `node`; otherwise the agents are named `prefix` and
    a number of at least two digits, counted from `first`.
    """

    count: Annotated[int, Meta(ge=0, le=100_000)] = 0
    prefix: str = "edge-"
    first: Annotated[int, Meta(ge=0)] = 1


class Mqtt(Struct, frozen=True, forbid_unknown_fields=True):
    """The broker and how it is treated.

    `in_flight_max` bounds what is sent and not yet answered (a broker that allows less
    is obeyed). `confirm_timeout_ms` is how long a record may wait for the bridge before
    it is sent again; `ack_timeout_ms` how long the broker may take to answer a publish
    before the connection is given up. `message_bytes_max` bounds a whole packet.
    """

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 1883
    keepalive_s: Annotated[int, Meta(ge=1, le=3600)] = 10
    in_flight_max: Annotated[int, Meta(ge=1, le=65_535)] = 20
    username: str = ""
    password_file: str = ""
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    confirm_timeout_ms: Positive = 30_000
    ack_timeout_ms: Positive = 20_000
    backlog_messages_per_s: Annotated[float, Meta(gt=0, le=10_000)] = 20.0
    message_bytes_max: Annotated[int, Meta(ge=2048, le=268_435_455)] = 131_072
    backoff_min_ms: Positive = 500
    backoff_max_ms: Positive = 60_000

    def __post_init__(self) -> None:
        """Refuse settings that are sound alone and wrong together."""
        if self.backoff_max_ms < self.backoff_min_ms:
            raise ValueError("backoff_max_ms must not be below backoff_min_ms")
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise ValueError("tls_cert_file and tls_key_file go together")


class Spool(Struct, frozen=True, forbid_unknown_fields=True):
    """The records on disk. Past `bytes_max` the oldest samples are given up first."""

    bytes_max: Annotated[int, Meta(ge=1_048_576)] = 2_147_483_648


class Exporter(Struct, frozen=True, forbid_unknown_fields=True):
    """The Prometheus page; `port` 0 turns it off.

    `aliases`: the names of other exporters under which the values stand there, too.
    """

    host: str = "127.0.0.1"
    port: PortOrOff = 9517
    aliases: tuple[Literal["dcgm", "kepler"], ...] = ()


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Where readings come from.

    `auto` is NVML, the kernel's log, and AMD and Intel through sysfs, as far as each is
    there. `nvml` is NVML and the kernel's log, `drm` AMD and Intel, `jetson` what a
    Jetson's sysfs tells.
    """

    kind: Literal["auto", "nvml", "drm", "jetson", "simulated", "recorded"] = "auto"


class Cadence(Struct, frozen=True, forbid_unknown_fields=True):
    """How rarely GPUs may be looked at, see `core/cadence.py`.

    `tick_ms` holds while anything changes or a GPU is in use. `idle_ms` is for nodes on
    which nothing happens: still below the cloud's limit for a silent node and short enough
    to see new work within seconds. `asleep_ms` is for nodes whose GPUs are all suspended:
    they have nothing to tell, and waking one costs 5 to 25 W. `bytes_per_day` bounds what
    samples cost on a metered link (0: no bound).
    """

    idle_ms: Annotated[int, Meta(ge=50, le=3_600_000)] = 4_000
    asleep_ms: Annotated[int, Meta(ge=50, le=3_600_000)] = 30_000
    bytes_per_day: Annotated[int, Meta(ge=0, le=10**12)] = 0


class Host(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the host's trees are mounted in the agent's container."""

    proc: str = "/proc"
    sys: str = "/sys"
    dev: str = "/dev"


class Nvml(Struct, frozen=True, forbid_unknown_fields=True):
    """How NVML is treated.

    `call_limit_ms` is how long one call may take before its GPU counts as unresponsive.
    `slow_interval_ms`: what changes slowly or costs the driver time (ECC, retired pages,
    PCIe throughput, fabric, MIG layout) is asked this often and kept in between.
    `let_sleep`: a GPU that its power management has suspended is not asked, which would
    wake it.
    """

    call_limit_ms: Positive = 1_000
    slow_interval_ms: Positive = 10_000
    let_sleep: bool = True


class Drm(Struct, frozen=True, forbid_unknown_fields=True):
    """AMD and Intel GPUs. `integrated`: report those that share the CPU's chip, too."""

    integrated: bool = False


class Simulated(Struct, frozen=True, forbid_unknown_fields=True):
    """Made-up GPUs, the same for the same `seed` and node name.

    `profile` is the character of the load; empty gives each node its own. Nodes in
    `busy_nodes` are busy whatever the profile. `control_file` takes faults as JSON
    lines while the agent runs.
    """

    seed: int = 1
    gpus: Annotated[int, Meta(ge=1, le=64)] = 2
    profile: Literal["", "idle", "wave", "bursty", "busy"] = ""
    busy_nodes: tuple[str, ...] = ()
    control_file: str = ""


class Recorded(Struct, frozen=True, forbid_unknown_fields=True):
    """A CSV of utilisation, replayed `speed` times as fast as it was recorded."""

    file: str = ""
    speed: Annotated[float, Meta(gt=0, le=1_000_000)] = 60.0


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole agent. `node` is the Kubernetes node name, never the pod's name."""

    cluster: str = ""
    node: str = ""
    tick_ms: Annotated[int, Meta(ge=50, le=3_600_000)] = 1000
    spool_dir: Annotated[str, Meta(min_length=1)] = "/var/lib/windvane"
    fleet: Fleet = Fleet()
    mqtt: Mqtt = Mqtt()
    spool: Spool = Spool()
    exporter: Exporter = Exporter()
    source: Source = Source()
    cadence: Cadence = Cadence()
    host: Host = Host()
    nvml: Nvml = Nvml()
    drm: Drm = Drm()
    simulated: Simulated = Simulated()
    recorded: Recorded = Recorded()

    def __post_init__(self) -> None:
        """Refuse a source without its file."""
        if self.source.kind == "recorded" and not self.recorded.file:
            raise ValueError("recorded.file: missing, and source.kind is 'recorded'")


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
    if "node" not in merged and environ.get("NODE_NAME"):
        merged["node"] = environ["NODE_NAME"]
    lines: list[str] = []
    found: Settings | None = None
    try:
        found = settings.read(Settings, merged, environ)
    except settings.Problems as problems:
        lines = list(problems.lines)
    lines += _name_problems(found, merged, environ)
    if lines or found is None:
        raise settings.Problems(lines)
    return found


def node_names(found: Settings) -> tuple[str, ...]:
    """The node of each agent in this process."""
    fleet = found.fleet
    if fleet.count == 0:
        return (found.node,)
    last = fleet.first + fleet.count - 1
    digits = max(2, len(str(last)))
    return tuple(f"{fleet.prefix}{n:0{digits}d}" for n in range(fleet.first, last + 1))


def _name_problems(
    found: Settings | None, table: Mapping[str, Any], environ: Mapping[str, str]
) -> list[str]:
    """What is wrong with the names; told also when something else is wrong already."""
    cluster = found.cluster if found else environ.get("WINDVANE__CLUSTER", table.get("cluster", ""))
    node = found.node if found else environ.get("WINDVANE__NODE", table.get("node", ""))
    has_fleet = found.fleet.count > 0 if found else _mentions_fleet(table, environ)
    lines: list[str] = []
    if not cluster:
        lines.append("cluster: missing, and there is no default")
    elif isinstance(cluster, str):
        lines += _refusal("cluster", names.check_cluster, cluster)
    if has_fleet:
        first = node_names(found)[0] if found else ""
        return lines + (_refusal("fleet.prefix", names.check_node, first) if first else [])
    if not node:
        lines.append("node: missing: set it, or NODE_NAME from the downward API; it is not guessed")
    elif isinstance(node, str):
        lines += _refusal("node", names.check_node, node)
    return lines


def _mentions_fleet(table: Mapping[str, Any], environ: Mapping[str, str]) -> bool:
    return "fleet" in table or any(name.startswith("WINDVANE__FLEET__") for name in environ)


def _refusal(place: str, check: Any, value: str) -> list[str]:
    try:
        check(value)
    except WireError as error:
        return [f"{place}: {error.detail}"]
    return []
