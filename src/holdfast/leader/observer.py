"""How a leader sees the cluster: read once as a whole, and from then on only where watches say that something changed.

Watches only save reading. A part of what is known is read again on every pass, changed or not, so that a watch that never
came, or a znode that somebody changed by hand, is noticed too.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from typing import Any, TypeVar, cast

from holdfast.clock import Clock
from holdfast.leader.job_observation import JobSight
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import Garbage, decode
from holdfast.model.identifiers import Epoch, JobId, NodeId
from holdfast.model.job import State
from holdfast.model.versions import FIRST
from holdfast.plan.snapshot import NodeView, Snapshot
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ANY_PATH, Client, NoNode, Read, Znode

TOGETHER = 100
"""Jobs that are read at the same time."""
REFRESH_S = 60.0
"""How old a job's picture may become, watches or not."""
REFRESHED_MAX = 20
"""Per pass."""

_OF_THE_LIVING = {"spec": False, "desired": True, "lease": False}
_OF_OTHERS = {"report": True, "spec": False, "desired": True, "attempt": False, "lease": False}
"""Parts of a job in the order in which they are read, and whether they are watched."""

Answer = TypeVar("Answer")


class Observer:
    def __init__(self, client: Client, paths: Paths, clock: Clock) -> None:
        self._client = client
        self._paths = paths
        self._clock = clock
        self._jobs: dict[JobId, JobSight] = {}
        self._looked_at: dict[JobId, float] = {}
        self._gone_since: dict[JobId, float] = {}
        self._dirty_jobs: set[JobId] = set()
        self._dirty_lists: set[str] = set()
        self._nodes: dict[NodeId, NodeView] = {}
        self._schemas: dict[NodeId, int] = {}
        self._orders: dict[NodeId, frozenset[JobId]] = {}
        self._order_versions: dict[str, int] = {}
        """Of those that somebody has written into. All others are as the leader made them."""
        self._odd_orders: set[str] = set()
        self._quarantined: frozenset[JobId] = frozenset()
        self.doubt_everything()

    # What may have changed

    def doubt_everything(self) -> None:
        paths = self._paths
        self._dirty_lists = {paths.jobs, paths.nodes, paths.orders, paths.quarantine}
        self._dirty_jobs = set(self._jobs)

    def begin_again(self) -> None:
        """For a new leader. Its margins begin now; and what is not watched is looked at once more."""
        now = self._clock.boottime()
        for job in self._gone_since:
            self._gone_since[job] = now
            _set_gone_since(self._jobs[job], now)
        paths = self._paths
        self._dirty_lists = {paths.jobs, paths.nodes, paths.orders, paths.quarantine}

    def doubt(self, job: JobId) -> None:
        self._dirty_jobs.add(job)
        self._dirty_lists.add(self._paths.orders)

    def doubt_order(self, path: str) -> None:
        """It is not as the leader made it."""
        self._odd_orders.add(path)
        self._dirty_lists.add(self._paths.orders)

    def fired(self, fired: Iterable[str]) -> None:
        """Watches have fired at these paths."""
        prefix = f"{self._paths.jobs}/"
        for path in fired:
            if path == ANY_PATH:
                self.doubt_everything()
            elif path.startswith(prefix):
                self._dirty_jobs.add(JobId(path.removeprefix(prefix).partition("/")[0]))
            elif path in (self._paths.jobs, self._paths.nodes, self._paths.quarantine):
                self._dirty_lists.add(path)

    # Looking

    async def look(self) -> None:
        """Read what may have changed. Raises NewerSchema, and what a Client raises; then nothing is taken for read."""
        paths, lists = self._paths, self._dirty_lists
        self._dirty_lists = set()
        try:
            if paths.nodes in lists:
                await self._look_at_nodes()
            if paths.quarantine in lists:
                self._quarantined = frozenset(map(JobId, await self._client.children(paths.quarantine, watch=True)))
            if paths.orders in lists:
                await self._look_at_orders()
            if paths.jobs in lists:
                await self._look_for_jobs()
        except BaseException:
            self._dirty_lists |= lists
            raise
        self._dirty_jobs |= self._due_for_refresh()
        await self._look_at_jobs()

    async def _look_at_nodes(self) -> None:
        names = sorted(await self._client.children(self._paths.nodes, watch=True))
        found = await _all([_optional(self._client.get(self._paths.node(NodeId(name)))) for name in names])
        self._nodes, self._schemas = {}, {}
        for name, znode in zip(names, found, strict=True):
            try:
                record = decode(NodeRecord, znode.data, where=name) if znode is not None else None
            except Garbage:
                continue  # nothing is placed on a node that cannot be read
            if record is not None:
                self._nodes[NodeId(name)] = NodeView(NodeId(name), record.slots)
                self._schemas[NodeId(name)] = record.newest_schema

    async def _look_at_orders(self) -> None:
        nodes = sorted(await self._client.children(self._paths.orders))
        found = await _all([_optional(self._client.children(self._paths.orders_of(NodeId(node)))) for node in nodes])
        self._orders = {
            NodeId(node): frozenset(map(JobId, jobs)) for node, jobs in zip(nodes, found, strict=True) if jobs is not None
        }
        odd = sorted(self._odd_orders)
        stats = await _all([self._client.exists(path) for path in odd])
        self._order_versions = {path: stat.version for path, stat in zip(odd, stats, strict=True) if stat is not None}
        self._odd_orders = set(self._order_versions)

    async def _look_for_jobs(self) -> None:
        present = set(map(JobId, await self._client.children(self._paths.jobs, watch=True)))
        for gone in self._jobs.keys() - present:
            self._forget(gone)
        self._dirty_jobs |= present - self._jobs.keys()

    def _forget(self, job: JobId) -> None:
        for known in (self._jobs, self._looked_at, self._gone_since):
            known.pop(job, None)

    def _due_for_refresh(self) -> set[JobId]:
        before = self._clock.boottime() - REFRESH_S
        due: set[JobId] = set()
        for job, looked_at in self._looked_at.items():  # in the order in which they were read
            if looked_at > before or len(due) >= REFRESHED_MAX:
                break
            due.add(job)
        return due

    async def _look_at_jobs(self) -> None:
        while self._dirty_jobs:
            some = sorted(self._dirty_jobs)[:TOGETHER]
            # Taken off before they are read: a watch that fires meanwhile puts them on again.
            self._dirty_jobs.difference_update(some)
            try:
                await self._look_at(some)
            except BaseException:
                self._dirty_jobs.update(some)
                raise

    async def _look_at(self, jobs: list[JobId]) -> None:
        path = self._paths.job
        # The state is watched for those who are next in line: a leader knows what it has written.
        found = await self._client.read(
            [
                read
                for job in jobs
                for read in (Read(path(job, "state"), watch=True), Read(path(job), children=True, watch=True))
            ]
        )
        living: list[JobSight] = []
        others: list[JobSight] = []
        for job, state, names in zip(jobs, found[::2], found[1::2], strict=True):
            if not isinstance(names, list):
                self._forget(job)
                continue
            sight = JobSight(job, state=cast(Znode | None, state))
            if sight.ended:  # nothing else of it matters any more
                self._remember(sight)
            else:
                (living if "lease" in names else others).append(sight)
        sights, vanished = await self._look_at_the_living(living)
        for sight in sights + await self._look_closer(others + vanished):
            self._remember(sight)

    async def _look_at_the_living(self, sights: list[JobSight]) -> tuple[list[JobSight], list[JobSight]]:
        """Only at what is needed to leave alone what is alive: a thousand attempts are to be looked at in a moment.
        And those whose lease has vanished meanwhile.

        The lease is not watched, because each heartbeat changes it. That it goes is told by the list of the job's parts; that
        an attempt which has just begun has something to say about it, by the report.
        """
        begun = [sight.id for sight in sights if not (sight.running and self._known_to_run(sight.id))]
        await self._client.read([Read(self._paths.job(job, "report"), watch=True) for job in begun])
        living, vanished = [], []
        for sight, found in await self._parts_of(sights, _OF_THE_LIVING):
            if found["lease"] is None:
                vanished.append(sight)
            else:
                living.append(replace(sight, **found))
        return await self._with_their_versions(living), vanished

    def _known_to_run(self, job: JobId) -> bool:
        """Or nothing is known: then it has not just begun. When it has, the watch is set once more, because the last one may
        have been used up by what was read with it."""
        last = self._jobs.get(job)
        return last is None or last.running

    async def _look_closer(self, sights: list[JobSight]) -> list[JobSight]:
        """At jobs that seem not to be alive.

        In this order: whoever takes the lease writes the report with it. A report that is older than the look for the lease
        makes a decision from a missing lease fail; one that is newer would let it pass.
        """
        sights = [replace(sight, **found) for sight, found in await self._parts_of(sights, _OF_OTHERS)]
        sights = await self._with_their_versions(sights)
        claimed = {sight.id: path for sight in sights if (path := sight.claimed_name(self._paths)) is not None}
        found = await self._znodes([Read(path) for path in claimed.values()])
        names = dict(zip(claimed, found, strict=True))
        return [replace(sight, name=names.get(sight.id)) for sight in sights]

    async def _with_their_versions(self, sights: list[JobSight]) -> list[JobSight]:
        """Most jobs are of the first version, which was read with the rest."""
        later = [sight for sight in sights if sight.version != FIRST]
        found = await self._znodes([Read(self._paths.spec(sight.id, sight.version)) for sight in later])
        specs = {sight.id: spec for sight, spec in zip(later, found, strict=True)}
        return [replace(sight, spec=specs[sight.id]) if sight.id in specs else sight for sight in sights]

    async def _parts_of(self, sights: list[JobSight], parts: dict[str, bool]) -> list[tuple[JobSight, dict[str, Any]]]:
        """Job by job, and of each in the order of the parts."""
        reads = [Read(self._paths.job(sight.id, part), watch=watch) for sight in sights for part, watch in parts.items()]
        found = iter(await self._znodes(reads))
        return [(sight, {part: next(found) for part in parts}) for sight in sights]

    async def _znodes(self, reads: list[Read]) -> list[Znode | None]:
        return cast(list[Znode | None], await self._client.read(reads))

    def _remember(self, sight: JobSight) -> None:
        job, now = sight.id, self._clock.boottime()
        self._looked_at.pop(job, None)  # to the end of the order
        self._looked_at[job] = now
        if sight.lease is not None or sight.ended or self._reported_since(job, sight):
            self._gone_since.pop(job, None)
        if sight.lease is None and not sight.ended:
            since = self._gone_since.setdefault(job, now)
            _set_gone_since(sight, since)
        self._jobs[job] = sight

    def _reported_since(self, job: JobId, sight: JobSight) -> bool:
        """Then a lease may have come and gone between two looks. Nor has anybody missed the lease of a new attempt yet."""
        last = self._jobs.get(job)
        if last is None or last.report is None or sight.report is None:
            return True  # it was alive when last seen, or was never seen
        return last.report.stat.version != sight.report.stat.version or last.attempt != sight.attempt

    # What was seen

    def snapshot(self, epoch: Epoch, *, margin_s: float, start_s: float) -> Snapshot:
        return Snapshot(
            epoch=epoch,
            jobs={id: sight.view for id, sight in self._jobs.items()},
            nodes=self._nodes,
            orders=self._orders,
            quarantined=self._quarantined,
            margin_s=margin_s,
            start_s=start_s,
        )

    def count(self) -> tuple[int, int]:
        """Jobs, and how many of them are alive."""
        return len(self._jobs), sum(sight.lease is not None for sight in self._jobs.values())

    def ended(self) -> list[tuple[JobId, State]]:
        states = ((id, sight.view.state) for id, sight in self._jobs.items() if sight.ended)
        return [(id, state) for id, state in states if isinstance(state, State)]

    def sight(self, job: JobId) -> JobSight | None:
        return self._jobs.get(job)

    def ordered_on(self, job: JobId) -> list[NodeId]:
        return [node for node, jobs in self._orders.items() if job in jobs]

    def order_version(self, path: str) -> int:
        return self._order_versions.get(path, 0)

    def has_orders(self, node: NodeId) -> bool:
        """Whether there is a place for this node's orders."""
        return node in self._orders

    @property
    def schema(self) -> int | None:
        """The newest that every node can read; None while there is no node."""
        return min(self._schemas.values(), default=None)


def _set_gone_since(sight: JobSight, since: float) -> None:
    object.__setattr__(sight, "view", replace(sight.view, lease_gone_since=since))


async def _optional(call: Awaitable[Answer]) -> Answer | None:
    try:
        return await call
    except NoNode:
        return None


async def _all(calls: list[Awaitable[Answer]]) -> list[Answer]:
    return list(await asyncio.gather(*calls))
