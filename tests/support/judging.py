"""A node before its judge: builders of what it sends, and a shell of a few lines around it."""

import msgspec

from cloud_processor.core import judge, model
from cloud_processor.core import policy as policies
from wire.sample import Envelope, Event, Gpu, GpuInventory, Loss, Sample, Status

EPOCH = "0123456789abcdef"
T0_MS = 1_700_000_000_000
JOURNEY_MS = 40


def gpu(uuid="GPU-a", percent=50.0, **changes) -> Gpu:
    given = {
        "utilization_percent": percent,
        "memory_free_bytes": 20 * 2**30,
        "power_mw": 200_000,
        "temperature_c": 60.0,
        "temperature_slowdown_c": 90.0,
        "throttle_reasons": (),
        "recovery_action": "none",
    }
    return Gpu(uuid=uuid, **{**given, **changes})


def sample(seq, ts_ms, *gpus, cadence_ms=1000) -> Sample:
    return Sample(
        seq=seq, ts_unix_ms=ts_ms, interval_ms=1000, cadence_ms=cadence_ms, gpus=gpus or (gpu(),)
    )


def event(seq, ts_ms, name="xid", *, uuid="GPU-a", xid=None) -> Event:
    return Event(seq=seq, ts_unix_ms=ts_ms, event=name, gpu_uuid=uuid, xid=xid)


def loss(seq, ts_ms, first, last, epoch=EPOCH) -> Loss:
    return Loss(
        seq=seq,
        ts_unix_ms=ts_ms,
        lost_epoch=epoch,
        seq_from=first,
        seq_to=last,
        time_from_unix_ms=None,
        time_to_unix_ms=None,
        cause="size",
    )


def status(ts_ms, state="birth", gpus=(), reason="") -> Status:
    return Status(ts_unix_ms=ts_ms, state=state, agent_version="0", gpus=gpus, reason=reason)


def inventory(uuid) -> GpuInventory:
    return GpuInventory(uuid=uuid, vendor="simulated")


def envelope(*records, sent_ms=None, epoch=EPOCH) -> Envelope:
    if sent_ms is None:
        sent_ms = max(r.ts_unix_ms for r in records)
    return Envelope(
        v=1, cluster="demo", node="edge-01", epoch=epoch, sent_unix_ms=sent_ms, records=records
    )


class Shell:
    """Moves envelopes through the judge and keeps what it wants kept.

    Between any two steps the state is written down and read again, so each test that uses
    this also shows that a state survives that.
    """

    def __init__(self, policy=None, now_ms=T0_MS):
        self.policy = policies.Policy() if policy is None else policy
        self.state = judge.fresh("demo", "edge-01")
        self.pool = "default"
        self.now_ms = now_ms
        self.seq = 0
        self.windows = {}
        self.aggregates = []
        self.verdicts = []
        self.heartbeats = []
        self.reports = []
        self.stores = 0

    @property
    def verdict(self):
        return self.state.verdict

    @property
    def best(self):
        """Of each window the aggregate with the highest revision, as a consumer keeps it."""
        found = {}
        for one in self.aggregates:
            start = one.window_start_unix_ms
            if start not in found or found[start].revision < one.revision:
                found[start] = one
        return found

    def names(self):
        return [report.name for report in self.reports]

    def send(self, *records, lane="live", arrived_ms=None, sent_ms=None, epoch=EPOCH):
        sent = envelope(*records, sent_ms=sent_ms, epoch=epoch)
        needed = judge.windows_needed(self.state, sent, self.policy)
        assert needed <= self.windows.keys()
        self._keep(
            *judge.receive(
                self.state,
                sent,
                lane=lane,
                arrived_unix_ms=self.now_ms if arrived_ms is None else arrived_ms,
                closed={start: self.windows[start] for start in needed},
                policy=self.policy,
                pool=self.pool,
                now_ms=self.now_ms,
            )
        )

    def tick(self):
        self._keep(*judge.tick(self.state, policy=self.policy, pool=self.pool, now_ms=self.now_ms))

    def run(self, count, *gpus, percent=50.0, cadence_ms=1000):
        """Live samples, one each `cadence_ms`, arriving a moment after it was taken."""
        for _ in range(count):
            self.wait(cadence_ms - 1)
            self.now_ms += 1
            self.seq += 1
            seen = gpus or (gpu(percent=percent),)
            ts_ms = self.now_ms - JOURNEY_MS
            self.send(sample(self.seq, ts_ms, *seen, cadence_ms=cadence_ms))
            self.tick()

    def wait(self, ms, step_ms=500):
        """Silence: nothing but the clock, and that only when the judge said it is due."""
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms:
            self.now_ms = min(until_ms, self.now_ms + step_ms)
            if judge.next_due_ms(self.state, self.policy) <= self.now_ms:
                self.tick()

    def happen(self, name="xid", *, lane="events", uuid="GPU-a", xid=None, age_ms=0):
        self.seq += 1
        self.send(
            event(self.seq, self.now_ms - JOURNEY_MS - age_ms, name, uuid=uuid, xid=xid),
            lane=lane,
            sent_ms=self.now_ms - JOURNEY_MS,
        )

    def _keep(self, state, actions):
        self.state = msgspec.json.decode(msgspec.json.encode(state), type=model.NodeState)
        assert self.state == state
        for action in actions:
            match action:
                case judge.EmitAggregate(aggregate=aggregate):
                    self.aggregates.append(aggregate)
                case judge.EmitVerdict(verdict=verdict, changed=changed):
                    (self.verdicts if changed else self.heartbeats).append(verdict)
                case judge.StoreWindow(start_unix_ms=start, window=window):
                    self.windows[start] = window
                    self.stores += 1
                case judge.DropWindow(start_unix_ms=start):
                    del self.windows[start]
                case judge.Report():
                    self.reports.append(action)
