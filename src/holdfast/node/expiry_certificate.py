"""Certificate of death for an attempt on another node that is gone: this node's failsafe promise has run out.

An attempt without a lease lives only as long as every node of its failsafe set promises not to start the next one. So a single
node of the set can end it. It stops renewing its promise, waits until the promise has run out, and certifies the death. A node
that is cut off from ZooKeeper, but not from the other nodes, would otherwise keep a cancelled job alive without limit.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Protocol

from holdfast.log import Log
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Ending, Order, Outcome, Report
from holdfast.zk.records.announced_schemas import read_schema_for_writing
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Committed, SetData


class LocalPromises(Protocol):
    """Failsafe promises of this node; implemented by `node.failsafe.promises.FailsafePromises`."""

    @property
    def period_s(self) -> float:
        """Return the longest time for which this node may have promised."""

    def remaining_s(self, job: JobId, attempt: Attempt) -> float:
        """Return the seconds until this attempt may be started."""

    def refuse(self, job: JobId, attempt: Attempt) -> None: ...

    def allow_except(self, jobs: Collection[JobId]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Wait:
    """Wait for the end of an attempt, which begins again if the report changes."""

    report_version: int
    since: float


class ExpiryCertifier:
    def __init__(self, paths: Paths, node: NodeId, promises: LocalPromises, log: Log) -> None:
        self._paths = paths
        self._node = node
        self._promises = promises
        self._log = log
        self._waits: dict[JobId, _Wait] = {}

    def forget_except(self, jobs: Collection[JobId]) -> None:
        """Renew the promises again for jobs without an order."""
        self._waits = {job: wait for job, wait in self._waits.items() if job in jobs}
        self._promises.allow_except(self._waits)

    async def certify(self, client: Client, order: Order) -> bool:
        """Certify the death of the ordered attempt once no promise keeps it alive. Return True to be called again.

        Raises the errors of the client, and those of a record that cannot be read.
        """
        job = order.job
        path, lease = self._paths.job(job, "report"), self._paths.job(job, "lease")
        await client.sync(path)
        znode = await client.get(path)
        report = decode(Report, znode.data, where=path)
        # Read the lease after the report: a runner that takes its lease again writes both, so one of the two reads shows it.
        is_alive = await client.exists(lease) is not None
        if report.dead or report.attempt != order.attempt or is_alive or self._node not in report.failsafe:
            self.forget_except(self._waits.keys() - {job})
            return is_alive  # the lease may be lost again before the leader has seen it
        if self._stop_renewing(order, znode.stat.version) > 0:
            return True
        reason = f"attempt {report.attempt} on {report.node} was lost: its lease is gone and it reported no outcome"
        outcome = report.outcome or Outcome(Ending.LOST, reason)
        certificate = replace(report, outcome=outcome, dead=True, expired_on=self._node)
        schema = await read_schema_for_writing(client, self._paths)
        result = await client.commit([SetData(path, encode(certificate, schema=schema), znode.stat.version)])
        if not isinstance(result, Committed):
            raise result.error
        self._log.warning("attempt certified dead", job=job, attempt=report.attempt, reason=outcome.reason)
        self.forget_except(self._waits.keys() - {job})
        return False

    def _stop_renewing(self, order: Order, report_version: int) -> float:
        """Refuse further promises for the attempt. Return the seconds until it has certainly ended."""
        job, now = order.job, asyncio.get_running_loop().time()
        self._promises.refuse(job, order.attempt)
        remaining_s = self._promises.remaining_s(job, Attempt(order.attempt + 1))
        wait = self._waits.get(job)
        if wait is None or wait.report_version != report_version:
            wait = self._waits[job] = _Wait(report_version, now)
            self._log.info("certificate waits", job=job, attempt=order.attempt, promised_s=round(remaining_s, 1))
        if report_version == order.report:
            return remaining_s
        # The runner may have held its lease again since the leader waited for a margin, and have lost it a moment ago.
        return max(remaining_s, wait.since + self._promises.period_s - now)
