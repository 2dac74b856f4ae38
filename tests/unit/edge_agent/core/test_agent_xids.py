"""The ledger: each XID is told once, whoever tells of it, whatever happens in between."""

import collections
import itertools

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from edge_agent.core import folding, pairing, reading, xids
from wire import sample

PCI_A, PCI_B = "00000000:3B:00.0", "00000000:AF:00.0"
UUID_OF = {PCI_A: "GPU-A", PCI_B: "GPU-B"}
UNIX_MS = 1_790_000_000_000
MINUTE_MS = 60_000


def heard(xid=79, gpu="GPU-A", **more):
    """As NVML tells it."""
    return reading.RawEvent(event="xid", gpu_uuid=gpu, xid=xid, **more)


def logged(sequence, xid=79, pci=PCI_A, *, boot="boot-1", age_ms=0, now_unix_ms=UNIX_MS, **more):
    """As the kernel's log tells it."""
    return reading.RawEvent(
        event="xid",
        pci_bus_id=pci,
        xid=xid,
        ts_unix_ms=now_unix_ms - age_ms,
        log=reading.LogPosition(boot, sequence),
        **more,
    )


class Agent:
    """Steps a ledger that is written down and read back each time."""

    def __init__(self, boot="boot-1"):
        self.ledger = xids.resume(xids.Ledger(), boot_id=boot, now_ms=0)
        self.events = []
        self.now_ms = 0
        self.wall_ms = UNIX_MS

    def step(self, *events, after_ms=0, is_kept=True):
        """One step; without `is_kept` the process dies before its commit."""
        self.now_ms += after_ms
        ledger = msgspec.json.decode(msgspec.json.encode(self.ledger), type=xids.Ledger)
        done = xids.step(
            ledger,
            events,
            uuid_of=UUID_OF,
            now_ms=self.now_ms,
            now_unix_ms=self.wall_ms + self.now_ms,
        )
        if is_kept:
            self.ledger = done.ledger
            self.events += done.events
        return list(done.events)

    def restart(self, boot="boot-1", after_ms=0):
        self.now_ms += after_ms
        self.ledger = xids.resume(self.ledger, boot_id=boot, now_ms=self.now_ms)

    def settle(self):
        """Wait until nothing is left to be told."""
        for _ in range(3):
            self.step(after_ms=MINUTE_MS)

    def told(self):
        counts = collections.Counter()
        for event in self.events:
            counts[event.gpu_uuid, event.xid] += event.count
        return dict(counts)


def test_the_first_goes_out_at_once_with_the_catalogue_and_the_logs_own_words():
    """An XID is told within the step in which it comes, with class, severity and action."""
    [event] = Agent().step(logged(7, detail="pid=1, name=python, off the bus"))

    assert event == sample.Event(
        seq=1,
        ts_unix_ms=UNIX_MS,
        event="xid",
        gpu_uuid="GPU-A",
        pci_bus_id=PCI_A,
        xid=79,
        xid_class="hardware",
        severity="fatal",
        action="reboot",
        detail="GPU lost from the PCIe bus: pid=1, name=python, off the bus",
    )


@pytest.mark.parametrize(
    ("xid", "xid_class", "severity"),
    [
        (13, "application", "ignore"),
        (31, "application", "ignore"),
        (43, "application", "ignore"),
        (45, "application", "ignore"),
        (79, "hardware", "fatal"),
        (999, "unknown", "unknown"),
    ],
)
def test_each_code_is_classed_and_none_is_guessed(xid, xid_class, severity):
    """BR-30: programs' faults, hardware faults and unknown codes are told apart at the source."""
    [event] = Agent().step(heard(xid))

    assert (event.xid_class, event.severity) == (xid_class, severity)


@pytest.mark.parametrize(
    "ways",
    [
        (heard(31), heard(31)),
        (logged(1, 31), logged(2, 31, now_unix_ms=UNIX_MS + MINUTE_MS)),
        (heard(31), logged(2, 31, now_unix_ms=UNIX_MS + MINUTE_MS)),
        (logged(1, 31), heard(31)),
    ],
)
def test_a_repeat_after_a_minute_is_an_event_of_its_own(ways):
    """BR-29: XID 31 twice, a minute apart: two events with two times, by whatever way."""
    agent = Agent()
    agent.step(ways[0])
    agent.step(ways[1], after_ms=MINUTE_MS)
    agent.settle()

    assert [(e.count, e.ts_unix_ms) for e in agent.events] == [
        (1, UNIX_MS),
        (1, UNIX_MS + MINUTE_MS),
    ]


def test_a_storm_is_a_handful_of_records_and_another_gpu_is_heard_at_once():
    """BR-32: 10,000 equal XIDs in 60 s by both ways sum to 10,000; B's 79 does not wait."""
    agent = Agent()
    sequences = itertools.count()
    for batch in range(100):
        now_unix_ms = agent.wall_ms + agent.now_ms + 600
        lines = [logged(next(sequences), 95, now_unix_ms=now_unix_ms) for _ in range(100)]
        agent.step(*lines, *([heard(95)] * 100), after_ms=600)
        if batch == 50:
            at_once = agent.step(heard(79, "GPU-B"))
    agent.settle()

    assert [(e.gpu_uuid, e.xid, e.count) for e in at_once] == [("GPU-B", 79, 1)]
    assert agent.told() == {("GPU-A", 95): 10_000, ("GPU-B", 79): 1}
    assert len(agent.events) <= 5


def test_a_days_storm_costs_one_record_a_minute():
    """BR-32: at most one record a minute and key, and none is lost, however long it lasts."""
    agent = Agent()
    for _ in range(1_000):
        agent.step(heard(95), heard(95), after_ms=1_000)
    agent.settle()

    assert agent.told() == {("GPU-A", 95): 2_000}
    assert len(agent.events) <= 1_000 // 60 + 3
    gaps = zip(agent.events[1:], agent.events[2:], strict=False)
    assert all(b.ts_unix_ms - a.ts_unix_ms >= 59_000 for a, b in gaps)
    assert all(e.ts_last_unix_ms > e.ts_unix_ms for e in agent.events if e.count > 1)


def test_each_xid_once_over_three_starts_and_a_reboot():
    """BR-33: 79 at boot+5 s, start at +20 s, restart at +60 s, reboot with one at +3 s."""
    agent = Agent()
    agent.step(logged(40, age_ms=15_000), after_ms=20_000)
    agent.restart(after_ms=40_000)
    agent.step(logged(40, age_ms=55_000))
    agent.now_ms, agent.wall_ms = 8_000, agent.wall_ms + 3_600_000
    agent.restart("boot-2")
    late = agent.wall_ms + agent.now_ms
    agent.step(logged(38, boot="boot-2", age_ms=5_000, now_unix_ms=late))
    agent.settle()

    assert [e.count for e in agent.events] == [1, 1]
    assert agent.told() == {("GPU-A", 79): 2}


def test_a_log_that_was_never_heard_is_read_from_its_beginning():
    """BR-33: hours of log read at the first start give the events that listening would have."""
    agent = Agent()
    ages = [3_600_000, 3_540_000, 1_800_000, 1_799_000, 1_798_000]
    agent.step(*[logged(n, 31, age_ms=age) for n, age in enumerate(ages)])
    agent.settle()

    assert [(UNIX_MS - e.ts_unix_ms, e.count) for e in agent.events] == [
        (3_600_000, 1),
        (3_540_000, 1),
        (1_800_000, 1),
        (1_799_000, 2),
    ]


@pytest.mark.parametrize("first_is_log", [True, False])
@pytest.mark.parametrize("down_ms", [10, 7_200_000])
@pytest.mark.parametrize("wall_step_ms", [0, -86_400_000, 86_400_000])
def test_both_ways_of_one_xid_with_a_restart_between_them(first_is_log, down_ms, wall_step_ms):
    """BR-33: what one way told before a restart is not news when the other way tells it."""
    agent = Agent()
    ways = [logged(3), heard()] if first_is_log else [heard(), logged(3, age_ms=-wall_step_ms)]
    agent.step(ways[0])
    agent.wall_ms += wall_step_ms
    agent.restart(after_ms=down_ms)
    agent.step(ways[1])
    agent.settle()

    assert agent.told() == {("GPU-A", 79): 1}


def test_a_log_that_becomes_readable_later_does_not_repeat_what_nvml_told():
    """BR-33: `/dev/kmsg` given to the agent after an hour: its old records are known."""
    agent = Agent()
    agent.step(heard(31))
    agent.step(heard(31), after_ms=MINUTE_MS)
    agent.now_ms += 3_600_000
    now = agent.wall_ms + agent.now_ms
    agent.step(logged(1, 31, age_ms=now - UNIX_MS, now_unix_ms=now))
    agent.step(logged(2, 31, age_ms=now - UNIX_MS - MINUTE_MS + 2_000, now_unix_ms=now))
    agent.step(logged(3, 31, now_unix_ms=now))
    agent.settle()

    assert agent.told() == {("GPU-A", 31): 3}


def test_what_a_crash_left_unpaired_does_not_swallow_the_next_boots_xid():
    """BR-33: NVML told of a 79, the machine died before its log was read, and 79 again."""
    agent = Agent()
    agent.step(heard())
    agent.restart("boot-2", after_ms=100)
    agent.step(logged(5, boot="boot-2"))
    agent.settle()

    assert agent.told() == {("GPU-A", 79): 2}


def test_another_boot_is_noticed_in_the_log_alone():
    """BR-33: without being told of the reboot, the ledger starts the log anew."""
    agent = Agent()
    agent.step(logged(900))
    agent.step(logged(5, boot="boot-2"), after_ms=1_000)
    agent.settle()

    assert agent.told() == {("GPU-A", 79): 2}


def test_a_gpu_that_nobody_knows_is_told_by_its_address():
    """An address without a GPU, such as one that was lost before the start: still an event."""
    [event] = Agent().step(logged(1, pci="00000000:D8:00.0"))

    assert (event.gpu_uuid, event.pci_bus_id) == (None, "00000000:D8:00.0")


def test_an_address_whose_gpu_becomes_known_pairs_with_what_nvml_tells():
    """The log comes before the inventory, NVML after it: one event."""
    ledger = xids.step(xids.Ledger(), [logged(1)], uuid_of={}, now_ms=0, now_unix_ms=UNIX_MS).ledger
    after = xids.step(ledger, [heard()], uuid_of=UUID_OF, now_ms=50, now_unix_ms=UNIX_MS)

    assert after.events == ()


def test_a_gpu_that_nvml_cannot_name_any_more_is_the_one_of_the_log():
    """A lost GPU gives no UUID: its 79 is the log's 79."""
    agent = Agent()
    [event] = agent.step(heard(gpu=None), logged(1))

    assert event.gpu_uuid == "GPU-A"


def test_where_both_are_at_hand_the_logs_words_are_told():
    """NVML gives a number only; in one step the log goes first, whatever the order."""
    [event] = Agent().step(heard(31), logged(1, 31, detail="pid=7"))

    assert event.detail.endswith("pid=7")


@pytest.mark.parametrize("code", [-1, 2**64 - 1, 65_536])
def test_an_impossible_code_is_no_code(code):
    """Garbage from the library becomes an event without a code, never a false one."""
    [event] = Agent().step(heard(code))

    assert (event.xid, event.severity, event.count) == (None, "unknown", 1)
    assert str(code) in event.detail


def test_more_kinds_than_can_be_kept_apart_are_counted_together():
    """A bound on memory loses no count: what exceeds it goes out without a code."""
    agent = Agent()
    agent.step(*[heard(code) for code in range(xids.KEYS_MAX + 500)])
    agent.settle()

    apart = [e for e in agent.events if e.xid is not None]
    together = [e for e in agent.events if e.xid is None]
    assert len(apart) == xids.KEYS_MAX
    assert sum(e.count for e in together) == 500
    assert all(folding.NAMELESS in e.detail for e in together)
    assert agent.ledger.folds == ()


def test_what_is_pending_is_bounded():
    """Without a readable log the list of what NVML told stays small."""
    agent = Agent()
    for _ in range(3 * pairing.PENDING_MAX):
        agent.step(heard(), after_ms=2_000)

    assert len(agent.ledger.heard) == pairing.PENDING_MAX
    assert len(msgspec.json.encode(agent.ledger)) < 16_384


def test_a_quiet_tick_leaves_the_ledger_as_it_is():
    """Nothing new: the same object, so that nothing is written."""
    agent = Agent()
    agent.step(logged(1))
    ledger = agent.ledger
    waiting = xids.step(ledger, (), uuid_of=UUID_OF, now_ms=500, now_unix_ms=UNIX_MS)
    agent.settle()
    settled = agent.ledger
    idle = xids.step(settled, (), uuid_of={}, now_ms=10**9, now_unix_ms=UNIX_MS)

    assert waiting.ledger is ledger
    assert idle.ledger is settled
    assert idle.events == ()


def test_what_is_no_xid_passes():
    """Other events go through as they came, and an XID without a code too."""
    raw = reading.RawEvent(event="source-failed", ts_unix_ms=5, detail="x")
    nameless = reading.RawEvent(event="xid", gpu_uuid="GPU-A")

    assert Agent().step(raw, nameless) == [
        sample.Event(seq=1, ts_unix_ms=5, event="source-failed", detail="x"),
        sample.Event(seq=1, ts_unix_ms=UNIX_MS, event="xid", gpu_uuid="GPU-A"),
    ]


gpus = st.sampled_from([("GPU-A", PCI_A), ("GPU-B", PCI_B)])
codes = st.sampled_from([31, 79])
happenings = st.tuples(gpus, codes, st.booleans())
actions = st.one_of(
    st.tuples(st.just("happen"), happenings),
    st.tuples(st.just("log"), st.integers(1, 4)),
    st.tuples(st.just("nvml"), st.integers(1, 4)),
    st.tuples(st.just("pass"), st.sampled_from([10, 999, 20_000, 61_000, 10**7])),
    st.tuples(st.just("wall"), st.sampled_from([-(10**8), -(10**6), -1, 7_000, 10**6, 10**8])),
    st.tuples(
        st.just("crash"),
        st.tuples(st.sampled_from([50, 10**6]), st.lists(happenings, max_size=2)),
    ),
    st.tuples(st.just("reboot"), st.integers(0, 10**5)),
)


class World:
    """A machine whose log tells every XID and whose NVML tells some of them."""

    def __init__(self):
        self.agent = Agent("boot-0")
        self.boots = 0
        self.ring = []
        self.read = 0
        self.nvml = []
        self.truth = collections.Counter()

    def happen(self, happening):
        (uuid, pci), code, is_heard = happening
        self.truth[uuid, code] += 1
        self.ring.append((self.agent.now_ms, pci, code))
        if is_heard:
            self.nvml.append(heard(code, uuid))

    def log(self, count, *, is_kept=True):
        """Deliver the next records of the log, dated by the wall clock of now."""
        wall = self.agent.wall_ms + self.agent.now_ms
        self.agent.step(
            *[
                logged(
                    n,
                    code,
                    pci,
                    boot=f"boot-{self.boots}",
                    age_ms=self.agent.now_ms - at,
                    now_unix_ms=wall,
                )
                for n, (at, pci, code) in enumerate(self.ring)
                if self.read <= n < self.read + count
            ],
            is_kept=is_kept,
        )
        self.read = min(len(self.ring), self.read + count)

    def hear(self, count):
        self.agent.step(*self.nvml[:count])
        del self.nvml[:count]

    def wait(self, after_ms):
        """Both ways tell what they have within seconds; then time passes."""
        self.hear(len(self.nvml))
        self.log(len(self.ring))
        self.agent.step(after_ms=after_ms)

    def wall(self, step_ms):
        self.agent.wall_ms += step_ms

    def crash(self, happening):
        """The process dies with a step not kept; the log is read again from its beginning."""
        down_ms, meanwhile = happening
        self.log(1, is_kept=False)
        for one in meanwhile:
            self.happen((*one[:2], False))
        self.agent.restart(f"boot-{self.boots}", after_ms=down_ms)
        self.read = 0

    def reboot(self, up_ms):
        self.wait(0)
        self.boots += 1
        self.ring, self.read = [], 0
        self.agent.now_ms = up_ms
        self.agent.restart(f"boot-{self.boots}")


@hypothesis.given(st.lists(actions, max_size=40))
def test_counts_sum_to_what_happened(script):
    """BR-33: any interleaving of both ways, restarts, reboots and steps of the wall clock."""
    world = World()
    doings = {
        "happen": world.happen,
        "log": world.log,
        "nvml": world.hear,
        "pass": world.wait,
        "wall": world.wall,
        "crash": world.crash,
        "reboot": world.reboot,
    }
    for name, value in script:
        doings[name](value)
    world.wait(0)
    world.agent.settle()

    assert world.agent.told() == dict(world.truth)
    assert all(event.count >= 1 for event in world.agent.events)
    assert world.agent.ledger.folds == ()


@hypothesis.given(
    st.lists(st.tuples(gpus, codes, st.integers(0, 90_000), st.integers(-(10**8), 10**8)))
)
def test_without_a_log_nvml_alone_counts(script):
    """BR-32: with NVML only, every telling is one XID, however the wall clock is set."""
    agent = Agent()
    truth = collections.Counter()
    for (uuid, _), code, after_ms, wall_ms in script:
        agent.wall_ms = UNIX_MS + wall_ms
        truth[uuid, code] += 1
        agent.step(heard(code, uuid), after_ms=after_ms)
    records = len(agent.events)
    agent.settle()

    assert agent.told() == dict(truth)
    assert records <= 4 * (1 + agent.now_ms / MINUTE_MS)
