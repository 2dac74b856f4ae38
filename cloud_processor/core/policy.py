"""Policy: every number that decides, with its unit in the name and its reason beside it.

Rules are data. The defaults are made to be shipped: slow to accuse, quick to forgive a
load, slow to forgive a fault.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from cloud_processor.core.vocabulary import LOADS
from wire import settings, xids

Ms = Annotated[int, Meta(ge=1, le=7 * 86_400_000)]
Times = Annotated[int, Meta(ge=1, le=10_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
Percent = Annotated[float, Meta(ge=0, le=100)]
Domain = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=200)]

Severity = Literal["ignore", "degraded", "fatal"]

DEFAULT_POOL: Final = "default"


class Load(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Load of a node: the mean over its GPUs of each one's mean over `window_ms`.

    `enter_percent` is where the bands low, medium, high and saturated begin,
    `leave_percent` where each ends; the distance between the two is what keeps a node
    that hovers at a border from flapping. A new band counts after `consecutive` samples
    in a row and not before the old one has lasted `hold_ms`. A GPU has a mean from
    `samples_min` readings on. With the defaults, a node that goes from idle to full is
    saturated after 15 to 20 s.
    """

    window_ms: Ms = 15_000
    enter_percent: tuple[Percent, Percent, Percent, Percent] = (5, 30, 70, 90)
    leave_percent: tuple[Percent, Percent, Percent, Percent] = (3, 25, 60, 80)
    consecutive: Times = 3
    hold_ms: Ms = 5_000
    samples_min: Times = 3

    def __post_init__(self) -> None:
        if list(self.enter_percent) != sorted(set(self.enter_percent)):
            raise ValueError(f"enter_percent {self.enter_percent} must ascend")
        for band, enter, leave in zip(
            LOADS[1:], self.enter_percent, self.leave_percent, strict=True
        ):
            if leave >= enter:
                raise ValueError(f"{band}: leave_percent {leave} must be below enter {enter}")


class Health(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Health of GPUs and nodes.

    A node has failed when at least `failed_gpu_share` of its GPUs have; below that it is
    degraded. A failed GPU is forgiven after `dwell_ms`, doubled with each relapse within
    `relapse_memory_ms` up to `dwell_max_ms`, and only after `sound_samples` readings in a
    row without a fault. `failed_effect` is what the taint does. `xid` overrides the
    catalogue by code; `unknown_xid` is for codes that the catalogue does not know.
    """

    failed_gpu_share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    dwell_ms: Ms = 300_000
    dwell_max_ms: Ms = 14_400_000
    relapse_memory_ms: Ms = 86_400_000
    sound_samples: Times = 5
    event_age_max_ms: Ms = 300_000
    failed_effect: Literal["NoSchedule", "NoExecute"] = "NoSchedule"
    unknown_xid: Severity = "degraded"
    xid: dict[str, Severity] = {}

    def __post_init__(self) -> None:
        if self.dwell_max_ms < self.dwell_ms:
            raise ValueError(f"dwell_max_ms {self.dwell_max_ms} must not be below dwell_ms")
        for code in self.xid:
            if not code.isdecimal():
                raise ValueError(f"xid.{code}: an XID is a number")


class Signals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Heat, power and free memory: a new value counts after `consecutive` samples in a row
    and not before the old one has lasted `hold_ms`; within `hot_margin_c` of its slowdown
    temperature a GPU is hot.
    """

    consecutive: Times = 5
    hold_ms: Ms = 30_000
    hot_margin_c: Annotated[float, Meta(ge=0, le=50)] = 5.0


class Telemetry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Silence, judged by arrival at the bridge: no live message for `stale_ms` is stale, for
    `lost_ms` lost. An agent that has little to tell says in each sample how long it will
    wait until the next (at most `cadence_ms_max` is believed); where that is more than half
    of `stale_ms`, both limits are later by what it is more. Live records older than
    `live_age_max_ms` repair history but steer nothing. A node's clock that is off by more
    than `skew_max_ms` is reported.
    """

    stale_ms: Ms = 5_000
    lost_ms: Ms = 60_000
    cadence_ms_max: Ms = 900_000
    live_age_max_ms: Ms = 15_000
    skew_max_ms: Ms = 5_000

    def __post_init__(self) -> None:
        if self.lost_ms <= self.stale_ms:
            raise ValueError(f"lost_ms {self.lost_ms} must be above stale_ms {self.stale_ms}")

    def limits(self, cadence_ms: int) -> tuple[int, int]:
        """From when on an agent of this cadence is stale, and lost, in ms of silence."""
        more_ms = max(0, min(cadence_ms, self.cadence_ms_max) - self.stale_ms // 2)
        return self.stale_ms + more_ms, self.lost_ms + more_ms


class Windows(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Aggregates: windows of `size_ms` by the node's clock, closed `grace_ms` after their end
    by a later sample, or when no sample has come for `idle_ms`. A closed window is kept for
    late samples while some may still come: at most `kept_max` of a node, for `kept_ms`.
    """

    size_ms: Annotated[int, Meta(ge=1_000, le=3_600_000)] = 10_000
    grace_ms: Ms = 2_000
    idle_ms: Ms = 5_000
    kept_max: Annotated[int, Meta(ge=2, le=10_000)] = 64
    kept_ms: Ms = 7 * 86_400_000


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of taint in a pool: at most `share_max` of the nodes (but at least one node),
    new ones at most `rate_share` of the nodes at once (at least one), and one more each
    `refill_ms`: so a tripped brake opens again by itself, one node at a time.
    """

    share_max: Share = 0.3
    rate_share: Share = 0.1
    refill_ms: Ms = 60_000


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`hard` is for taints that keep pods out, `soft` for those that only ask."""

    hard: Limits = Limits()
    soft: Limits = Limits(share_max=0.7, rate_share=0.3, refill_ms=5_000)


class Silence(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When more than `share` of a pool of `nodes_min` or more fall silent within `window_ms`,
    the monitor is at fault and nothing new is tainted. A single silent node is tainted
    only `grace_ms` after it fell silent, so that the first of many is not.
    """

    share: Share = 0.5
    nodes_min: Times = 3
    window_ms: Ms = 30_000
    grace_ms: Ms = 5_000


class PoolRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes whose labels have all of `labels` belong to the pool `name`."""

    name: Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
    labels: dict[str, str]


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of it. `domain` prefixes every key we own on a node; a verdict is repeated each
    `heartbeat_ms`; a node that has just come gets its first labels when something is known
    of it, after `first_labels_ms` in any case; `pools` are asked in order, and the rest is
    the pool `default`.
    """

    domain: Domain = "windvane.io"
    heartbeat_ms: Ms = 10_000
    first_labels_ms: Ms = 10_000
    load: Load = Load()
    health: Health = Health()
    signals: Signals = Signals()
    telemetry: Telemetry = Telemetry()
    windows: Windows = Windows()
    budget: Budget = Budget()
    silence: Silence = Silence()
    pools: tuple[PoolRule, ...] = ()


def parse(table: Mapping[str, Any]) -> Policy:
    """A policy from its table; raises `settings.Problems` that names all that is wrong."""
    return settings.read(Policy, table, {})


def pool_of(policy: Policy, labels: Mapping[str, str]) -> str:
    """The pool of a node with these labels."""
    for rule in policy.pools:
        if all(labels.get(key) == value for key, value in rule.labels.items()):
            return rule.name
    return DEFAULT_POOL


def severity_of(policy: Policy, xid: int) -> Severity:
    """What an XID means under this policy."""
    told = policy.health.xid.get(str(xid)) or xids.lookup(xid).severity
    return policy.health.unknown_xid if told == "unknown" else told
