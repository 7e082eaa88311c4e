"""Asynchronous code that is run from synchronous code, with and without a running event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Generator
from typing import cast

import pytest

from holdfast.client.connection.blocking import QUEUED_ITEMS_MAX, iterate_blocking, run_blocking
from holdfast.client.logs.log_follower import LogOutput, split_lines
from holdfast.errors import Refused
from holdfast.model.identifiers import Attempt


async def count(limit: int) -> AsyncIterator[int]:
    for number in range(limit):
        await asyncio.sleep(0)
        yield number


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


async def refuse() -> int:
    raise Refused("no")


def client_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("holdfast-client")]


def test_result_is_returned_without_and_inside_a_running_loop() -> None:
    async def inside() -> int:
        return run_blocking(answer)

    assert run_blocking(answer) == asyncio.run(inside()) == 42
    assert not client_threads()


def test_error_is_raised_without_and_inside_a_running_loop() -> None:
    async def inside() -> int:
        return run_blocking(refuse)

    with pytest.raises(Refused):
        run_blocking(refuse)
    with pytest.raises(Refused):
        asyncio.run(inside())


def test_iterator_yields_all_items_without_and_inside_a_running_loop() -> None:
    async def inside() -> list[int]:
        return list(iterate_blocking(lambda: count(50)))

    assert list(iterate_blocking(lambda: count(50))) == asyncio.run(inside()) == list(range(50))
    assert not client_threads()


def test_iterator_raises_the_error_after_the_items_before_it() -> None:
    async def fail() -> AsyncIterator[int]:
        yield 1
        raise Refused("no")

    iterator = iterate_blocking(fail)
    assert next(iterator) == 1
    with pytest.raises(Refused):
        next(iterator)


def test_iterator_reads_only_a_few_items_ahead_and_stops_when_closed() -> None:
    produced: list[int] = []
    closed = threading.Event()

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                produced.append(len(produced))
                yield produced[-1]
                await asyncio.sleep(0)
        finally:
            closed.set()

    iterator = cast(Generator[int, None, None], iterate_blocking(endless))
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    iterator.close()
    assert closed.wait(10) and not client_threads()
    assert len(produced) <= 3 + QUEUED_ITEMS_MAX + 1


def test_lines_are_joined_across_chunks_but_not_across_attempts() -> None:
    outputs = [(1, b"one\ntw"), (1, b"o\nrest"), (2, b"thr\xc3"), (2, b"\xbc\n")]
    assert list(split_lines(LogOutput(Attempt(attempt), data) for attempt, data in outputs)) == ["one", "two", "rest", "thrü"]
