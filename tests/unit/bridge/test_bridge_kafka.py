"""The producer's replacement, with a producer that fails as it is told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import prometheus_client
import pytest
from aiokafka import errors as kafka_errors

from bridge import config, kafka, telemetry
from bridge.core import route

Answer = Exception | None


class Producers:
    """Makes producers; `answer(generation, value)` says what becomes of a record.

    An answer of None is success; `silent` values are never answered; `full` values are
    refused once with back-pressure.
    """

    def __init__(self) -> None:
        self.answer: Callable[[int, bytes], Answer] = lambda _generation, _value: None
        self.silent: Callable[[int, bytes], bool] = lambda _generation, _value: False
        self.full: set[bytes] = set()
        self.sent: list[tuple[int, bytes]] = []
        self.made = 0

    def __call__(self, **_: Any) -> SimpleNamespace:
        self.made += 1
        generation = self.made

        async def nothing() -> None:
            await asyncio.sleep(0)

        async def send(_topic: str, value: bytes, **_: Any) -> asyncio.Future:
            if value in self.full:
                self.full.discard(value)
                raise kafka_errors.KafkaTimeoutError
            self.sent.append((generation, value))
            future = asyncio.get_running_loop().create_future()
            error = self.answer(generation, value)
            if self.silent(generation, value):
                return future
            if error is None:
                future.get_loop().call_soon(future.set_result, None)
            else:
                future.get_loop().call_soon(future.set_exception, error)
            return future

        return SimpleNamespace(
            start=nothing,
            send=send,
            _closed=False,
            _sender=SimpleNamespace(sender_task=None),
            client=SimpleNamespace(close=nothing),
        )


@pytest.fixture
def producers(monkeypatch: pytest.MonkeyPatch) -> Producers:
    made = Producers()
    monkeypatch.setattr(kafka.aiokafka, "AIOKafkaProducer", made)
    monkeypatch.setattr(kafka, "RETRY_MIN_MS", 1)
    monkeypatch.setattr(kafka, "RETRY_MAX_MS", 5)
    monkeypatch.setattr(kafka, "WATCH_S", 0.01)
    return made


def record(name: str) -> route.DeadLetter:
    return route.internal_error(name, name.encode(), "x", 10_000)


@contextlib.asynccontextmanager
async def running(**settings: int) -> AsyncIterator[tuple[kafka.Log, list[tuple[int, str]]]]:
    outcomes: list[tuple[int, str]] = []
    log = kafka.Log(
        config.Kafka(**settings),
        telemetry.Telemetry(prometheus_client.CollectorRegistry()),
        lambda ticket, _record, outcome: outcomes.append((ticket, outcome)),
    )
    task = asyncio.ensure_future(log.run())
    try:
        yield log, outcomes
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def settled(outcomes: list, count: int) -> None:
    async with asyncio.timeout(4):
        while len(outcomes) < count:  # noqa: ASYNC110 - the log under test tells nobody else
            await asyncio.sleep(0.001)


async def test_in_order(producers: Producers) -> None:
    """Records go out in the order in which they were put, and each is settled once."""
    async with running() as (log, outcomes):
        for ticket in range(1, 6):
            log.put(ticket, record(f"r{ticket}"), 0)
        await settled(outcomes, 5)

    assert [value for _, value in producers.sent] == [b"r1", b"r2", b"r3", b"r4", b"r5"]
    assert outcomes == [(n, "held") for n in range(1, 6)]
    assert log.open_count == 0


async def test_failure_sends_the_rest_again_in_order(producers: Producers) -> None:
    """BR-80: a batch that fails for good fails those behind it; a new producer sends them all."""
    broken = kafka_errors.OutOfOrderSequenceNumber()
    producers.answer = lambda generation, value: (
        broken if generation == 1 and value in (b"r2", b"r3") else None
    )

    async with running() as (log, outcomes):
        for ticket in range(1, 5):
            log.put(ticket, record(f"r{ticket}"), 0)
        await settled(outcomes, 4)

    again = [value for generation, value in producers.sent if generation == 2]
    assert again[:2] == [b"r2", b"r3"]
    assert sorted(outcomes) == [(n, "held") for n in range(1, 5)]


async def test_too_large_is_found_alone(producers: Producers) -> None:
    """BR-82: of a batch refused as too large only the large record is given up."""
    large = kafka_errors.MessageSizeTooLargeError()
    producers.answer = lambda generation, value: (
        large if generation == 1 or value == b"r2" else None
    )

    async with running() as (log, outcomes):
        for ticket in range(1, 4):
            log.put(ticket, record(f"r{ticket}"), 0)
        await settled(outcomes, 3)

    assert sorted(outcomes) == [(1, "held"), (2, "too-large"), (3, "held")]


async def test_back_pressure_keeps_the_record(producers: Producers) -> None:
    """BR-79: a full producer makes us wait; the record is tried again, before the next one."""
    producers.full.add(b"r1")

    async with running() as (log, outcomes):
        log.put(1, record("r1"), 0)
        log.put(2, record("r2"), 0)
        await settled(outcomes, 2)

    assert [value for _, value in producers.sent] == [b"r1", b"r2"]
    assert producers.made == 1


async def test_silence_has_a_deadline(producers: Producers, monkeypatch: Any) -> None:
    """BR-80: a producer that answers nothing is replaced, and its records go out again."""
    producers.silent = lambda generation, _value: generation == 1

    async with running(delivery_timeout_ms=1000) as (log, outcomes):
        log.put(1, record("r1"), 0)
        await settled(outcomes, 1)

    assert producers.made == 2
    assert outcomes == [(1, "held")]


async def test_a_fault_of_ours_ends_the_run(producers: Producers) -> None:
    """BR-83: an error in what hears of results is not swallowed: the task ends with it."""

    def settle(*_: object) -> None:
        raise KeyError("bug")

    log = kafka.Log(
        config.Kafka(), telemetry.Telemetry(prometheus_client.CollectorRegistry()), settle
    )
    log.put(1, record("r1"), 0)

    with pytest.raises(KeyError):
        async with asyncio.timeout(1):
            await log.run()
