"""A look at a cluster that costs nothing: what `ls --all --json` and `cluster --json` would say, by one session that is kept.

A new process for each look would keep one of two cores busy. What a test says in the end, it takes from the real commands.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.cli.commands.ls import job_as_json
from holdfast.client.retry import Conversation
from holdfast.client.target import Target
from holdfast.errors import Unavailable
from holdfast.zk.records.cluster_view import ClusterView, observe
from holdfast.zk.records.job_reader import read_jobs
from holdfast.zk.session.client import Client

ANSWER_S = 20.0

Answer = TypeVar("Answer")


class Window:
    """Methods raise HoldfastError while there is nothing to be seen."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="window")
        self._conversation = Conversation(target)

    def __enter__(self) -> "Window":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._conversation.__aexit__(), self._loop).result(ANSWER_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def jobs(self) -> dict[str, dict[str, Any]]:
        found = self._ask(lambda client: read_jobs(client, self._target.paths, ended=True))
        return {job.id: job_as_json(job) for job in found}

    def cluster(self) -> ClusterView:
        return self._ask(lambda client: observe(client, self._target.paths))

    def _ask(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        asked = asyncio.run_coroutine_threadsafe(self._conversation.ask(question), self._loop)
        try:
            return asked.result(ANSWER_S)
        except concurrent.futures.TimeoutError:
            asked.cancel()
            raise Unavailable("ZooKeeper does not answer") from None
