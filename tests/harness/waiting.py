"""Waiting for a condition, with a deadline. No test sleeps and hopes."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.02
T = TypeVar("T")


def eventually(predicate: Callable[[], T], within_s: float, what: str, *, every_s: float = POLL_S) -> T:
    """The first true value of the predicate; fails, saying what was waited for, if there is none in time."""
    deadline = time.monotonic() + within_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what} (last seen: {value!r})")
        time.sleep(every_s)


async def soon(predicate: Callable[[], T], within_s: float, what: str) -> T:
    """The same for a coroutine."""
    deadline = time.monotonic() + within_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what} (last seen: {value!r})")
        await asyncio.sleep(POLL_S)
