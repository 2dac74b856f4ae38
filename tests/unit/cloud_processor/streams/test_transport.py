"""The mends of Faust's Consumer, one by one, on the subclass itself."""

import asyncio

import faust
import pytest
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from cloud_processor.streams import transport

LIVE = TP("live", 0)
CHANGELOG = TP("t-state-changelog", 0)


class Consumer(transport.Consumer):
    """The real class, with the assignment said by the test instead of a broker."""

    assigned: frozenset[TP] = frozenset({LIVE})

    def assignment(self):
        return set(self.assigned)


@pytest.fixture
async def consumer():
    app = faust.App("t", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False)
    app.loop = asyncio.get_running_loop()
    app.transport = transport.Transport(app.conf.broker_consumer, app)
    app.topics._acking_topics.add("live")
    app.consumer_generation_id = 1

    async def nothing(*_args, **_kwargs):
        return None

    made = Consumer(
        app.transport,
        callback=nothing,
        on_partitions_revoked=nothing,
        on_partitions_assigned=nothing,
        loop=app.loop,
    )
    yield made
    made._thread.thread_loop.close()


def message(consumer, offset, generation=1):
    return ConsumerMessage(
        "live", 0, offset, 0.0, 0, None, b"k", b"v", None, tp=LIVE, generation_id=generation
    )


async def test_duplicates_in_acked_do_not_stop_commits(consumer):
    """BR-93: an offset acknowledged twice is passed over, not a place to get stuck at."""
    consumer._acked[LIVE] = [3, 4, 5, 4, 6]
    consumer._committed_offset[LIVE] = 3

    first = consumer._new_offset(LIVE)
    consumer._committed_offset[LIVE] = first
    consumer._acked[LIVE].extend([7, 8])

    assert (first, consumer._new_offset(LIVE)) == (7, 9)


async def test_a_gap_ends_before_the_message_in_hand(consumer):
    """BR-93: after a jump 3 -> 7 only 4..6 are a hole; 7 itself is not done yet."""
    consumer._committed_offset[LIVE] = 3
    consumer._acked[LIVE] = [3]

    await consumer._add_gap(LIVE, 4, 7)

    assert consumer._new_offset(LIVE) == 4
    consumer._committed_offset[LIVE] = 4
    consumer._acked[LIVE].extend([8])
    assert consumer._new_offset(LIVE) in {7, None}


async def test_gapped_topic_commits_to_its_end_and_never_past_the_slow_record(consumer):
    """BR-93: offsets 0-9 and 12-19, record 3 slow: at most 3 until it is done, then 20."""
    consumer._committed_offset[LIVE] = 0
    offsets = [*range(10), *range(12, 20)]
    await consumer._add_gap(LIVE, 10, 12)
    for offset in offsets:
        if offset != 3:
            assert consumer.ack(message(consumer, offset))

    before = consumer._new_offset(LIVE)
    consumer._committed_offset[LIVE] = before
    consumer.ack(message(consumer, 3))
    after = consumer._new_offset(LIVE)

    assert before == 3
    assert after == 20


async def test_partitions_are_resumed_only_with_the_flow(consumer):
    """Recovery resumes before it seeks; nothing may be fetched until the flow goes on."""
    consumer._set_active_tps({LIVE})
    consumer.pause_partitions({LIVE})

    consumer.resume_partitions({LIVE})
    held = set(consumer._get_active_partitions())
    consumer.resume_flow()

    assert held == set()
    assert set(consumer._get_active_partitions()) == {LIVE}


async def test_a_partition_lost_meanwhile_is_not_resumed(consumer):
    """Held back and then revoked: resuming it would read what is another worker's."""
    consumer._set_active_tps({LIVE, TP("live", 1)})
    consumer.pause_partitions({LIVE, TP("live", 1)})

    consumer.resume_partitions({LIVE, TP("live", 1)})
    consumer.resume_flow()

    assert set(consumer._get_active_partitions()) == {LIVE}


async def test_an_ack_from_before_a_rebalance_counts_for_nothing(consumer):
    """A message of an older generation may be anyone's by now: its offset stays undone."""
    old = message(consumer, 5, generation=0)

    assert not consumer.ack(old)
    assert old.acked
    assert consumer._acked[LIVE] == []


async def test_state_is_written_and_committed_before_a_revocation(consumer):
    """`before_revoke` runs while acknowledgements still count."""
    order = []

    async def before():
        order.append(("flush", consumer._acked[LIVE] == [1]))

    async def commit(*_args, **_kwargs):
        order.append("commit")

    consumer.transport.before_revoke = before
    consumer.commit = commit
    consumer.ack(message(consumer, 1))

    await consumer.on_partitions_revoked({LIVE})

    assert order == [("flush", True), "commit"]
    assert LIVE not in consumer._acked


async def test_a_slow_flush_does_not_hold_a_revocation_up(consumer, monkeypatch):
    """BR-85: a broker that does not answer must not cost us the membership."""
    monkeypatch.setattr(transport, "REVOKE_FLUSH_TIMEOUT_S", 0.05)

    async def before():
        await asyncio.sleep(30)

    consumer.transport.before_revoke = before

    await asyncio.wait_for(consumer.on_partitions_revoked({LIVE}), timeout=1.0)
