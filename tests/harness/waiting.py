"""Waiting for a condition with a deadline, instead of sleeping for a fixed time."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.02
T = TypeVar("T")


def wait_until(predicate: Callable[[], T | None], within_s: float, what: str, *, every_s: float = POLL_S) -> T:
    """Poll the predicate and return its first true value. Raise AssertionError, naming `what`, after `within_s`."""
    deadline = time.monotonic() + within_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what} (last seen: {value!r})")
        time.sleep(every_s)


async def wait_until_async(predicate: Callable[[], T | None], within_s: float, what: str) -> T:
    """Like `wait_until`, without blocking the event loop."""
    deadline = time.monotonic() + within_s
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what} (last seen: {value!r})")
        await asyncio.sleep(POLL_S)
