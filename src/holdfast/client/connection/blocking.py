"""Run asynchronous code from synchronous code, also inside a running event loop such as that of a Jupyter notebook."""

import asyncio
import contextlib
import queue
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Item = TypeVar("Item")

QUEUED_ITEMS_MAX = 16
"""Number of items that `iterate_blocking` reads ahead of its consumer."""


def run_blocking(main: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine to its end and return its result.

    If this thread already runs an event loop, a worker thread runs the coroutine. KeyboardInterrupt cancels it either way.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(main())
    with ThreadPoolExecutor(1, "holdfast-client") as pool:
        run = _CancellableRun(main)
        result = pool.submit(run.run)
        try:
            return result.result()
        except KeyboardInterrupt:
            run.cancel()
            raise


def iterate_blocking(source: Callable[[], AsyncIterator[Item]]) -> Iterator[Item]:
    """Iterate over an asynchronous iterator, whose event loop runs in a worker thread. Closing the generator cancels it."""
    items: queue.SimpleQueue[Item | _End] = queue.SimpleQueue()
    free_places = asyncio.Semaphore(QUEUED_ITEMS_MAX)

    async def produce() -> None:
        async for item in source():
            await free_places.acquire()
            items.put(item)

    run = _CancellableRun(produce)
    with ThreadPoolExecutor(1, "holdfast-client") as pool:
        result = pool.submit(run.run)
        result.add_done_callback(lambda _: items.put(_End()))
        try:
            while not isinstance(item := items.get(), _End):
                yield item
                run.call(free_places.release)
        finally:
            run.cancel()
        result.result()


class _End:
    """Last element of the queue of an iterator."""


class _CancellableRun(Generic[Result]):
    """Coroutine with its own event loop, which other threads can cancel."""

    def __init__(self, main: Callable[[], Coroutine[Any, Any, Result]]) -> None:
        self._main = main
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    def run(self) -> Result:
        return asyncio.run(self._run())

    async def _run(self) -> Result:
        task = asyncio.current_task()
        assert task is not None
        self._started.set_result((asyncio.get_running_loop(), task))
        return await self._main()

    def cancel(self) -> None:
        """Cancel the coroutine. Has no effect after its end."""
        _, task = self._started.result()
        self.call(task.cancel)

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the event loop's thread. Does nothing if the loop has ended."""
        loop, _ = self._started.result()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(function)
