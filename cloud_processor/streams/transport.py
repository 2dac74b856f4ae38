"""Faust's Kafka transport with its faults at a rebalance mended.

Faust 0.15.3 can lose events, and stop committing, when a worker dies under load. The
faults are in its Consumer; each is mended here by overriding the one method that has
it, and the subclass is put in place by `app.transport = Transport(...)`. Nothing is
patched from outside. Each mend has a unit test, and all of them one test on real Kafka
that kills a worker and counts independently.

1. `_new_offset` walks `_acked` as runs of consecutive numbers and stops at the first
   number that does not follow, so one duplicate ends the run, its twin stays at the
   head for ever, and the partition is never committed again. Mend: sorted and unique
   before the walk.
2. `_drain_messages` reports a hole between two reads as `_add_gap(tp, read + 1,
   offset)`, and `_add_gap` counts its last argument as part of the hole. That offset is
   the message in hand, which nobody has processed yet; it can then be committed unread.
   Mend: the hole ends one before.
3. After table recovery the partitions are resumed first and moved to their committed
   offsets afterwards. In between the fetcher reads from a wrong position, and the jump
   back or forth looks like a hole. Mend: `resume_partitions` only notes them, and
   `resume_flow`, which Faust calls after the seek, resumes those that are still ours.
4. A message fetched before a rebalance may be acknowledged after it, when its partition
   has a new owner, or has been read again from the committed offset by us. Its offset
   would count as done. Mend: `ack` drops what belongs to an older generation.

Beside that the subclass asks the shells to write their state before partitions are
given up (`before_revoke`), because Faust forgets all acknowledgements as the first
thing of a revocation, so that whatever is not committed by then is read twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from faust.transport.drivers import aiokafka
from faust.types import TP

REVOKE_FLUSH_TIMEOUT_S = 3.0


class Consumer(aiokafka.Consumer):
    """The aiokafka consumer with the four mends; see the module's story."""

    logger = aiokafka.logger

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._held_back: set[TP] = set()
        super().__init__(*args, **kwargs)

    def _new_offset(self, tp: TP) -> int | None:
        acked = self._acked[tp]
        if acked:
            acked[:] = sorted(set(acked))
        return super()._new_offset(tp)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        await super()._add_gap(tp, offset_from, offset_to - 1)

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        self._held_back.update(TP(tp.topic, tp.partition) for tp in tps)

    def resume_flow(self) -> None:
        held, self._held_back = self._held_back, set()
        if held:
            super().resume_partitions(held & set(self.assignment()))
        super().resume_flow()

    def ack(self, message: Any) -> bool:
        if message.generation_id != self.app.consumer_generation_id:
            message.acked = True
            self._unacked_messages.discard(message)
            return False
        return super().ack(message)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        self._held_back.clear()
        before_revoke = self.transport.before_revoke
        if before_revoke is not None and revoked:
            try:
                async with asyncio.timeout(REVOKE_FLUSH_TIMEOUT_S):
                    await before_revoke()
                    await self.commit()
            except TimeoutError:
                self.log.warning("state not written before a revocation; it will be read again")
        await super().on_partitions_revoked(revoked)

    def offsets(self) -> Mapping[TP, tuple[int, int]]:
        """(committed, end) of each partition whose records we acknowledge, as far as known."""
        found: dict[TP, tuple[int, int]] = {}
        for tp in self.assignment():
            if not self.app.topics.acks_enabled_for(tp.topic):
                continue
            end = self.highwater(tp)
            if end is not None:
                found[tp] = (self._committed_offset[tp] or 0, end)
        return found


class Transport(aiokafka.Transport):
    """Faust's aiokafka transport with our Consumer."""

    Consumer = Consumer

    #: Called before partitions are given up, to write state and acknowledge what it covers.
    before_revoke: Callable[[], Awaitable[None]] | None = None
