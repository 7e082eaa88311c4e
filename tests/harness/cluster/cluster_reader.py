"""Cheap reader of a cluster's state: the content of `ls --all --json` and `cluster --json`, over one long-lived session.

Polling with a new process each time would keep a core busy. Tests make their final assertions with the real commands.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from holdfast.client.connection.retry import RetryingSession
from holdfast.client.connection.target import Target
from holdfast.client.jobs.job_json import job_as_json
from holdfast.errors import Unavailable
from holdfast.model.identifiers import JobId
from holdfast.zk.records.batch_reads import read_znodes
from holdfast.zk.records.cluster_view import ClusterView, read_cluster
from holdfast.zk.records.job_reader import read_jobs
from holdfast.zk.session.client import Client

ANSWER_TIMEOUT_S = 20.0

Answer = TypeVar("Answer")


class ClusterReader:
    """Reader of jobs and cluster. Methods raise HoldfastError while ZooKeeper is unreachable."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster-reader")
        self._conversation = RetryingSession(target)

    def __enter__(self) -> "ClusterReader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._conversation.__aexit__(), self._loop).result(ANSWER_TIMEOUT_S)
        finally:  # a loop left open would fail a later test, whichever runs when it is garbage-collected
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def jobs(self) -> dict[str, dict[str, Any]]:
        jobs = self._query(lambda client: read_jobs(client, self._target.paths, include_ended=True))
        return {job.id: job_as_json(job) for job in jobs}

    def cluster(self) -> ClusterView:
        return self._query(lambda client: read_cluster(client, self._target.paths))

    def lease_versions(self, jobs: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return (zxid of the creation, version) of the lease of each of these jobs that has one."""
        ids = [JobId(job) for job in jobs]
        leases = self._query(lambda client: read_znodes(client, [self._target.paths.job(id, "lease") for id in ids]))
        return {
            id: (lease.stat.created_zxid, lease.stat.version)
            for id, lease in zip(ids, leases, strict=True)
            if lease is not None
        }

    def _query(self, request: Callable[[Client], Awaitable[Answer]]) -> Answer:
        future = asyncio.run_coroutine_threadsafe(self._conversation.call(request), self._loop)
        try:
            return future.result(ANSWER_TIMEOUT_S)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise Unavailable("ZooKeeper does not answer") from None
