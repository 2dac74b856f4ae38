"""Delivery against a broker that allows little, answers wrongly, or never."""

import asyncio
import contextlib

import pytest
from prometheus_client import CollectorRegistry

from edge_agent import config, delivery, spool, telemetry, threads
from support import stub_broker
from wire import codec, sample, topics

TS = 1_790_000_000_000


def draft(size: int = 0) -> sample.Sample:
    gpus = (sample.Gpu(uuid="GPU-1", errors={"padding": "x" * size} if size else {}),)
    return sample.Sample(seq=1, ts_unix_ms=TS, interval_ms=1000, gpus=gpus)


class Sender:
    """A spool and a delivery, without a sampler."""

    def __init__(self, folder, port: int, **settings) -> None:
        self.registry = CollectorRegistry()
        say = telemetry.Telemetry(telemetry.Metrics(self.registry), "demo", "edge-01")
        self.spool = spool.Spool(folder, cluster="demo", node="edge-01", bytes_max=2**30)
        self.disk = threads.Threads("disk", 2)
        self.connecting = threads.Threads("connect", 2)
        self.settings = config.Mqtt(
            port=port,
            backoff_min_ms=20,
            backoff_max_ms=100,
            backlog_messages_per_s=1000,
            **settings,
        )
        self._say = say

    def begin(self) -> None:
        self.delivery = delivery.Delivery(
            self.settings,
            cluster="demo",
            node="edge-01",
            spool=self.spool,
            disk=self.disk,
            connecting=self.connecting,
            say=self._say,
            birth=lambda: sample.Status(ts_unix_ms=TS, state="birth", agent_version="0"),
        )
        self.task = asyncio.ensure_future(self.delivery.run())

    def put(self, *drafts) -> None:
        self.delivery.appended(self.spool.commit(drafts).rows)

    def value(self, name: str, **labels) -> float:
        labels = {"cluster": "demo", "node": "edge-01", **labels}
        return self.registry.get_sample_value(f"windvane_agent_{name}", labels) or 0.0

    async def end(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        self.delivery.close()
        self.spool.close()
        self.disk.close()
        self.connecting.close()


def seqs(broker) -> set[int]:
    return {
        record.seq
        for _, payload in broker.accepted
        for record in codec.decode_envelope(payload).records
        if not isinstance(record, sample.Status)
    }


async def until(happened, timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not happened():  # noqa: ASYNC110 - the broker has no event for each question
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def sender(folder, broker, **settings):
    one = Sender(folder, broker.port, **settings)
    try:
        yield one
    finally:
        await one.end()


def confirm_all(broker, store) -> None:
    said = sample.Confirmation(v=1, epoch=store.epoch, ranges=topics.to_ranges(seqs(broker)))
    broker.say(codec.encode(said))


@pytest.mark.parametrize("receive_maximum", [1, 3, 20], ids=str)
async def test_receive_maximum_is_obeyed(tmp_path, receive_maximum):
    """BR-62: 300 rows wait, the broker allows N and answers late: never more, no reconnect."""
    async with (
        stub_broker.StubBroker(receive_maximum=receive_maximum, answer_after_s=0.01) as broker,
        sender(tmp_path, broker, message_bytes_max=2048) as one,
    ):
        one.spool.commit([draft(300)] * 300)
        one.begin()
        async with asyncio.timeout(20):
            while one.value("connected") == 0 or len(seqs(broker)) < 300:
                await asyncio.sleep(0.02)
                if seqs(broker):
                    confirm_all(broker, one.spool)

        assert broker.breaches == []
        assert broker.connects == 1
        assert broker.unanswered_most <= receive_maximum


async def test_a_broker_that_does_not_answer_is_left_and_nothing_is_lost(tmp_path):
    """BR-59, BR-63: no PUBACK, window full: a new session after the timeout, all delivered."""
    silent = [True]
    async with (
        stub_broker.StubBroker(answer=lambda *_: None if silent[0] else 0) as broker,
        sender(tmp_path, broker, ack_timeout_ms=300, in_flight_max=5) as one,
    ):
        one.begin()
        await until(lambda: one.value("connected"))
        for _ in range(25):
            one.put(draft())
        await until(lambda: broker.connects >= 2)
        assert broker.unanswered_most <= 5
        silent[0] = False
        await until(lambda: seqs(broker) == set(range(1, 26)))

        assert one.spool.counts().spooled == 25
        confirm_all(broker, one.spool)
        await until(lambda: one.spool.read(1, 99, 10) == ())


async def test_a_refusal_is_no_delivery(tmp_path):
    """BR-65: live refused (0x87), 0x10 elsewhere: the row stays, both counted, none blocks."""
    async with (
        stub_broker.StubBroker(
            answer=lambda topic, _: 0x87 if topic.endswith("live") else 0x10
        ) as broker,
        sender(tmp_path, broker, confirm_timeout_ms=200) as one,
    ):
        one.begin()
        await until(lambda: one.value("connected"))
        one.put(draft())
        await until(lambda: one.value("messages_refused_total", lane="live", code="0x87") == 1)
        assert one.spool.counts().delivered == 0
        await until(lambda: seqs(broker) == {1})

        first = next(topic for topic, payload in broker.accepted if b'"sample"' in payload)
        assert first.endswith("backlog")
        assert one.value("messages_unheard_total") >= 2
        assert one.spool.counts().spooled == 1


async def test_a_packet_too_large_for_the_broker_is_never_sent(tmp_path):
    """BR-66: Maximum Packet Size 2000, rows of 1 kB: never two in a packet, nobody hangs up."""
    async with (
        stub_broker.StubBroker(packet_bytes_max=2000) as broker,
        sender(tmp_path, broker) as one,
    ):
        one.spool.commit([draft(900), draft(900), draft(900), draft(1000)])
        one.begin()
        await until(lambda: one.value("connected"))
        await until(lambda: len(seqs(broker)) == 4)

        assert broker.breaches == []
        assert broker.connects == 1


async def test_a_row_above_the_brokers_limit_waits_in_the_spool(tmp_path):
    """BR-66: measured on the whole packet: it stays, is counted, and the small one is delivered."""
    async with (
        stub_broker.StubBroker(packet_bytes_max=1200) as broker,
        sender(tmp_path, broker) as one,
    ):
        one.spool.commit([draft(1000), draft()])
        one.begin()
        await until(lambda: seqs(broker) == {2})

        assert one.value("records_oversize_total", whose="broker") == 1
        assert broker.breaches == []
        assert [row.seq for row in one.spool.read(1, 9, 10**6)] == [1, 2]


async def test_a_row_above_our_own_limit_becomes_a_loss(tmp_path):
    """A record that no packet of ours can hold is given up, and a loss record says so."""
    async with (
        stub_broker.StubBroker() as broker,
        sender(tmp_path, broker, message_bytes_max=2048) as one,
    ):
        big = sample.Sample(
            seq=1,
            ts_unix_ms=TS,
            interval_ms=0,
            gpus=tuple(sample.Gpu(uuid="x" * 90) for _ in range(40)),
        )
        one.spool.commit([big, draft()])
        one.begin()
        await until(lambda: {2, 3} <= seqs(broker))
        records = [r for _, p in broker.accepted for r in codec.decode_envelope(p).records]
        losses = [record for record in records if isinstance(record, sample.Loss)]

        assert (losses[0].seq_from, losses[0].seq_to, losses[0].cause) == (1, 1, "oversize")
        assert one.spool.law_holds()


async def test_the_whole_packet_is_weighed(tmp_path):
    """No packet is larger than the limit, and full ones come close to it."""
    sizes: list[int] = []
    async with (
        stub_broker.StubBroker(packet_bytes_max=4000) as broker,
        sender(tmp_path, broker) as one,
    ):
        packet = broker._published

        def weigh(writer, body, size, unanswered):
            sizes.append(size)
            packet(writer, body, size, unanswered)

        broker._published = weigh
        one.spool.commit([draft(i % 50) for i in range(150)])
        one.begin()
        await until(lambda: len(seqs(broker)) == 150)

    assert max(sizes) <= 4000
    assert max(sizes) > 3000
