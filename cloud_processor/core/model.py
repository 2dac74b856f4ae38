"""What is remembered: the nodes of the by-node step, the pools of the by-pool step.

Everything here is frozen and can be written down and read again at any moment; the
states are what the tables hold.
"""

from msgspec import Struct

from wire.verdict import Health, Taint, Verdict

Interval = tuple[int, int]


class Intake(Struct, frozen=True, array_like=True):
    """Seqs of one epoch: closed intervals, ascending and disjoint."""

    epoch: str
    held: tuple[Interval, ...] = ()
    explained: tuple[Interval, ...] = ()
    duplicates: int = 0


class Settled(Struct, frozen=True, array_like=True):
    """A value that changes only when a candidate has lasted: see `hysteresis`."""

    value: str = "unknown"
    since_ms: int = 0
    candidate: str = ""
    streak: int = 0


class Moments(Struct, frozen=True, array_like=True):
    """`count` values; their sum, least and greatest."""

    count: int
    total: float
    low: float
    high: float


class Meter(Struct, frozen=True, array_like=True):
    """A counter over a time: its first and last reading with their times."""

    first_ms: int
    first: int
    last_ms: int
    last: int


class GpuWindow(Struct, frozen=True, array_like=True):
    """One GPU within a window."""

    readings: int = 0
    utilization_percent: Moments | None = None
    memory_used_bytes: Moments | None = None
    power_mw: Moments | None = None
    temperature_c: Moments | None = None
    energy_mj: Meter | None = None


class Window(Struct, frozen=True, array_like=True):
    """One window of one node; `samples` distinct samples are counted in it."""

    samples: int = 0
    gpus: dict[str, GpuWindow] = {}


class Span(Struct, frozen=True, array_like=True):
    """The seqs of a window's samples, and whether all that could still join them is here.

    `below` and `above`: nothing is missing between this window and its neighbour. `stored`:
    the window is in the shell's table. A window of two epochs has epoch "" and is never
    known to be complete.
    """

    epoch: str
    first: int
    last: int
    below: bool = False
    above: bool = False
    stored: bool = False


class Books(Struct, frozen=True, array_like=True):
    """What was counted: see `books`. `spans` has every window that is open or stored."""

    intakes: tuple[Intake, ...] = ()
    open: dict[int, Window] = {}
    spans: dict[int, Span] = {}
    watermark_ms: int = 0
    counted_at_ms: int = 0


class GpuHealth(Struct, frozen=True, array_like=True):
    """Health of one GPU: see `health`."""

    health: Health = "unknown"
    reasons: tuple[str, ...] = ()
    since_ms: int = 0
    sound: int = 0
    relapses: int = 0
    recovered_ms: int | None = None


class GpuView(Struct, frozen=True, array_like=True):
    """What is known of one GPU: health, recent utilisation, the newest numbers.

    `listed` is false when the agent's newest birth no longer has the GPU; `hot` is None
    where the device tells no slowdown temperature.
    """

    health: GpuHealth = GpuHealth()
    recent: tuple[tuple[int, float], ...] = ()
    listed: bool = True
    temperature_c: float | None = None
    hot: bool | None = None
    throttle_reasons: tuple[str, ...] | None = None
    power_mw: int | None = None
    memory_free_bytes: int | None = None


class View(Struct, frozen=True, array_like=True):
    """What a node looks like, from its newest live samples: see `opinion`.

    `epoch` and `seq` name the newest sample; `past` are epochs that were the newest once.
    """

    epoch: str = ""
    seq: int = 0
    past: tuple[str, ...] = ()
    gpus: dict[str, GpuView] = {}
    load: Settled = Settled()
    thermal: Settled = Settled()
    power: Settled = Settled()
    memory_free: Settled = Settled()


class Skew(Struct, frozen=True, array_like=True):
    """The smallest arrival minus sending of this period and of the last one that had any."""

    period: int = 0
    least_ms: int | None = None
    before_ms: int | None = None
    sent_unix_ms: int = 0
    told: bool = False


class Driver(Struct, frozen=True, array_like=True):
    """What births told of the NVIDIA driver; each GPU by UUID with its architecture."""

    version: str | None = None
    cuda_version: str | None = None
    gpus: tuple[tuple[str, str | None], ...] = ()


class NodeState(Struct, frozen=True, kw_only=True):
    """All that the by-node step remembers of one node.

    `cadence_ms` is how long the agent may be silent, by its own newest sample.
    """

    cluster: str
    node: str
    books: Books = Books()
    view: View = View()
    skew: Skew = Skew()
    arrived_unix_ms: int | None = None
    cadence_ms: int = 0
    died: bool = False
    driver: Driver | None = None
    verdict: Verdict | None = None
    published_ms: int = 0


class Member(Struct, frozen=True, kw_only=True):
    """A node of a pool: its last verdict (without GPUs), what it was given, what was said.

    `back_ms` is when it was heard again after a silence.
    """

    verdict: Verdict
    first_ms: int
    seen_ms: int
    silent_since_ms: int | None = None
    back_ms: int | None = None
    granted: tuple[Taint, ...] = ()
    told: tuple[dict[str, str], tuple[Taint, ...], tuple[Taint, ...]] | None = None


class Bucket(Struct, frozen=True, array_like=True):
    """Tokens for new taints, as they stood at `filled_ms`; None before the first use."""

    tokens: float | None = None
    filled_ms: int = 0


class PoolState(Struct, frozen=True, kw_only=True):
    """All that the by-pool step remembers of one pool; `frozen_ms` is when `frozen` changed."""

    cluster: str
    pool: str
    nodes: dict[str, Member] = {}
    hard: Bucket = Bucket()
    soft: Bucket = Bucket()
    frozen: bool = False
    frozen_ms: int = 0
