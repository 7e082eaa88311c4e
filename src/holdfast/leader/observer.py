"""Observer of the cluster: reads everything once, and then only the znodes whose watches fired.

Watches only save reads. Every pass also reads some jobs that have not changed, oldest observation first, so that a lost watch
or a manual edit is noticed too.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from holdfast.clock import Clock
from holdfast.leader.job_observation import JobObservation
from holdfast.leader.observation_reader import ObservationReader
from holdfast.leader.order_index import OrderIndex
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import MalformedRecord, NewerSchema, decode, schema_for_writing
from holdfast.model.identifiers import Epoch, JobId, NodeId
from holdfast.plan.snapshot import NodeView, Snapshot
from holdfast.zk.records.announced_schemas import announced_schema
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ANY_PATH, Client, Znode
from holdfast.zk.session.missing_znode import none_if_missing

JOBS_PER_READ = 100
GROUPS_AT_ONCE = 4
"""Groups of jobs that are read at the same time. On a busy machine most of the time is spent waiting for replies."""
AGE_S_MAX = 60.0
"""Age at which an observation is renewed without a watch."""
AGED_PER_PASS_MAX = 20
"""Observations per pass that are renewed because of their age."""


class Observer:
    def __init__(self, client: Client, paths: Paths, clock: Clock) -> None:
        self._client = client
        self._paths = paths
        self._clock = clock
        self._reader = ObservationReader(client, paths)
        self.orders = OrderIndex(client, paths)
        self._jobs: dict[JobId, JobObservation] = {}
        """Jobs that have not ended."""
        self._ended_at: dict[JobId, float] = {}
        """Wall time of the end of each ended job. Nothing else of it is kept: no decision about a job needs it."""
        self._observed_at: dict[JobId, float] = {}
        """Boot time of each observation, oldest first."""
        self._stale_jobs: set[JobId] = set()
        self._stale_lists: set[str] = set()
        self._nodes: dict[NodeId, NodeView] = {}
        self._nodes_gone_since: dict[NodeId, float] = {}
        self._schemas: dict[NodeId, int] = {}
        self._quarantined: frozenset[JobId] = frozenset()
        self.jobs_read = 0
        """Jobs that were read, each time counted again."""
        self.mark_all_stale()

    # Marking stale

    def mark_all_stale(self) -> None:
        """Mark everything stale that may have changed. An ended job does not change: age and the list of jobs renew it."""
        self._mark_lists_stale()
        self._stale_jobs |= self._jobs.keys()

    def _mark_lists_stale(self) -> None:
        paths = self._paths
        self._stale_lists = {paths.jobs, paths.nodes, paths.orders, paths.quarantine}

    def start_leading(self) -> None:
        """Prepare the observations of a standby node for leading: restart all margins and read the unwatched lists again."""
        now = self._clock.boottime()
        for job, observation in self._jobs.items():
            if observation.lease_gone_since is not None:
                self._jobs[job] = replace(observation, lease_gone_since=now)
        self._mark_lists_stale()

    def mark_job_stale(self, job: JobId) -> None:
        self._stale_jobs.add(job)
        self._stale_lists.add(self._paths.orders)

    def mark_order_changed(self, path: str) -> None:
        """Note that another process has modified an order."""
        self.orders.mark_changed(path)
        self._stale_lists.add(self._paths.orders)

    def mark_changed(self, paths: Iterable[str]) -> None:
        """Mark stale what the watches that fired at these paths belong to."""
        prefix = f"{self._paths.jobs}/"
        for path in paths:
            if path == ANY_PATH:
                self.mark_all_stale()
            elif path.startswith(prefix):
                self._stale_jobs.add(JobId(path.removeprefix(prefix).partition("/")[0]))
            elif path in (self._paths.jobs, self._paths.nodes, self._paths.quarantine):
                self._stale_lists.add(path)
            elif path.startswith(f"{self._paths.nodes}/"):
                self._stale_lists.add(self._paths.nodes)

    # Reading

    async def refresh(self) -> None:
        """Read everything that is stale. Raise the errors of a Client; unread parts then stay stale."""
        paths, stale = self._paths, self._stale_lists
        self._stale_lists = set()
        try:
            if paths.nodes in stale:
                await self._refresh_nodes()
            if paths.quarantine in stale:
                self._quarantined = frozenset(map(JobId, await self._client.children(paths.quarantine, watch=True)))
            if paths.orders in stale:
                await self.orders.refresh()
            if paths.jobs in stale:
                await self._refresh_job_list()
        except BaseException:
            self._stale_lists |= stale
            raise
        self._stale_jobs |= self._aged_jobs()
        await self._refresh_jobs()

    async def _refresh_nodes(self) -> None:
        names = sorted(await self._client.children(self._paths.nodes, watch=True))
        reads = [none_if_missing(self._client.get(self._paths.node(NodeId(name)), watch=True)) for name in names]
        znodes = await asyncio.gather(*reads)
        previous, self._nodes, self._schemas = self._nodes, {}, {}
        for node, znode in zip(map(NodeId, names), znodes, strict=True):
            if znode is not None:
                self._nodes[node] = _node_view(node, znode)
                self._schemas[node] = announced_schema(znode.data)
        gone = {**dict.fromkeys(previous, self._clock.boottime()), **self._nodes_gone_since}
        self._nodes_gone_since = {node: since for node, since in gone.items() if node not in self._nodes}

    async def _refresh_job_list(self) -> None:
        present = set(map(JobId, await self._client.children(self._paths.jobs, watch=True)))
        for job in self._observed_at.keys() - present:
            self._forget(job)
        self._stale_jobs |= present - self._observed_at.keys()

    def _forget(self, job: JobId) -> None:
        for known in (self._jobs, self._ended_at, self._observed_at):
            known.pop(job, None)

    def _aged_jobs(self) -> set[JobId]:
        before = self._clock.boottime() - AGE_S_MAX
        aged: set[JobId] = set()
        for job, observed_at in self._observed_at.items():
            if observed_at > before or len(aged) >= AGED_PER_PASS_MAX:
                break
            aged.add(job)
        return aged

    async def _refresh_jobs(self) -> None:
        while self._stale_jobs:
            order = sorted(self._stale_jobs)
            groups = [order[first : first + JOBS_PER_READ] for first in range(0, len(order), JOBS_PER_READ)]
            for first in range(0, len(groups), GROUPS_AT_ONCE):
                await self._refresh_groups(groups[first : first + GROUPS_AT_ONCE])

    async def _refresh_groups(self, groups: list[list[JobId]]) -> None:
        """Read the groups at the same time. After an error, wait for all of them: a late reply must not replace a newer one."""
        outcomes = await asyncio.gather(*map(self._refresh_group, groups), return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _refresh_group(self, group: list[JobId]) -> None:
        # Unmarked before the read: a watch that fires during the read marks the job again.
        self._stale_jobs.difference_update(group)
        self.jobs_read += len(group)
        try:
            observations = await self._reader.read(group, self._was_running)
        except BaseException:
            self._stale_jobs.update(group)
            raise
        for job in set(group) - {observation.id for observation in observations}:
            self._forget(job)
        for observation in observations:
            self._store(observation)

    def _was_running(self, job: JobId) -> bool:
        """Return False only for a job whose previous observation was not of a running job. True for a job seen first now."""
        previous = self._jobs.get(job)
        return previous.is_running if previous is not None else job not in self._ended_at

    def _store(self, observation: JobObservation) -> None:
        job, now = observation.id, self._clock.boottime()
        previous = self._jobs.get(job)
        self._forget(job)  # the new entries go to the end of the order
        self._observed_at[job] = now
        if (ended_at := observation.ended_at) is not None:
            self._ended_at[job] = ended_at
            return
        if observation.is_alive:
            self._jobs[job] = observation
            return
        since = previous.lease_gone_since if previous is not None and not _may_have_run(previous, observation) else None
        self._jobs[job] = replace(observation, lease_gone_since=since if since is not None else now)

    # Results

    def snapshot(self, epoch: Epoch) -> Snapshot:
        """Return the observed state of all jobs that have not ended. The leader adds its own timing and contact."""
        return Snapshot(
            epoch=epoch,
            jobs={id: observation.view for id, observation in self._jobs.items()},
            nodes=self._nodes,
            orders=self.orders.jobs_by_node,
            quarantined=self._quarantined,
            nodes_gone_since=self._nodes_gone_since,
        )

    def count_jobs(self) -> tuple[int, int]:
        """Return the number of jobs, and how many of them have a lease."""
        return len(self._observed_at), sum(observation.is_alive for observation in self._jobs.values())

    @property
    def ended_at(self) -> Mapping[JobId, float]:
        """Wall time of the end of each ended job."""
        return self._ended_at

    def observation(self, job: JobId) -> JobObservation | None:
        """Return the last observation of a job that has not ended."""
        return self._jobs.get(job)

    def jobs_set_aside(self) -> dict[JobId, str]:
        """Return the jobs with a record that a later version of Holdfast wrote, each with the reason."""
        newer = ((id, observation.view.newer_record) for id, observation in self._jobs.items())
        return {id: record.reason for id, record in newer if record is not None}

    @property
    def schema(self) -> int:
        """Schema of the records that the leader writes."""
        return schema_for_writing(self._schemas.values())


def _node_view(node: NodeId, znode: Znode) -> NodeView:
    try:
        record = decode(NodeRecord, znode.data, where=node)
    except NewerSchema:
        # Every release that writes a newer schema ends attempts on request.
        return NodeView(node, slots=0, has_readable_record=False, ends_attempts=True)
    except MalformedRecord:
        return NodeView(node, slots=0, has_readable_record=False)
    return NodeView(
        node,
        record.slots,
        health=record.health,
        ends_attempts=record.ends_attempts,
        certifies_expiry=record.certifies_expiry,
    )


def _may_have_run(previous: JobObservation, current: JobObservation) -> bool:
    """Return True if an attempt may have held the lease since the previous observation, or a new attempt was assigned."""
    old, new = previous.znode("report"), current.znode("report")
    if old is None or new is None:
        return True  # the report is not read while the lease exists
    return old.stat.version != new.stat.version or previous.znode("attempt") != current.znode("attempt")
