"""Checkpoints of deleted jobs: a tombstone makes them expire, never the absence of a record."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from holdfast.errors import Unavailable
from holdfast.leader.checkpoint_collector import CHECKPOINTS_PER_ROUND_MAX, CheckpointCollector
from holdfast.leader.garbage_collector import GarbageCollector
from holdfast.model.identifiers import Epoch, JobId, NodeId
from holdfast.model.job import Desired, Spec
from holdfast.plan.retention import RetentionPolicy
from holdfast.storage import NotRemovable
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.records.submission import set_desired, submit
from holdfast.zk.session.client import Create, SetData
from holdfast.zk.session.missing_znode import children_or_empty
from tests.contract.backends import Backend
from tests.contract.leader_scene import ContractCluster, ErrorRaisingLog, LoopClock, run_scene

KEEP_S = 1000.0


@dataclass
class Storage:
    """Record of the removals that the collector asks for. The checkpoint of the job `foreign` must be kept."""

    removed: list[str] = field(default_factory=list)
    reachable: bool = True
    inaccessible: set[str] = field(default_factory=set)

    async def remove(self, job: JobId) -> int:
        if not self.reachable or job in self.inaccessible:
            raise Unavailable("the storage does not answer")
        if job == "foreign":
            raise NotRemovable("it holds other data")
        self.removed.append(job)
        return 5


class LaterClock(LoopClock):
    """Clock that the test moves forward."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def wall(self) -> float:
        return super().wall() + self.passed_s


class DeletionScene:
    """Leader that deletes the records of ended jobs at once, and their checkpoints after `KEEP_S`."""

    def __init__(self, cluster: ContractCluster, checkpoints_s: float | None = KEEP_S) -> None:
        self.cluster, self.client, self.paths = cluster, cluster.client, cluster.paths
        self.storage, self.clock = Storage(), LaterClock()
        self._retention = RetentionPolicy(ended_max=0, checkpoints_s=checkpoints_s)

    def _leadership(self) -> Leadership:
        return Leadership(self.client, self.paths, node=NodeId("n1"), epoch=Epoch(0), contender="c-x-0000000000")

    def new_collector(self) -> CheckpointCollector:
        return CheckpointCollector(
            self.client,
            self.paths,
            self._leadership(),
            clock=self.clock,
            retention=self._retention,
            log=ErrorRaisingLog(),
            remove=self.storage.remove,
        )

    async def end_job(self, job: str) -> None:
        """Submit a job, cancel it, and let the leader delete its record."""
        spec = Spec(name=job, script="o.py", blob="1" * 64)
        await submit(self.client, self.paths, spec, job=JobId(job), request=f"r-{job}")
        await set_desired(self.client, self.paths, JobId(job), Desired.CANCEL)
        await self.cluster.run_passes_until_idle()
        collector = GarbageCollector(
            self.client,
            self.paths,
            self._leadership(),
            self.cluster.leader.observer,
            clock=self.clock,
            retention=self._retention,
            log=ErrorRaisingLog(),
            remove_checkpoint=self.storage.remove,
        )
        collector._records_at = 0.0
        await collector.collect_if_due()
        await self.client.sync(self.paths.jobs)
        assert job not in await self.client.children(self.paths.jobs)

    async def tombstones(self) -> list[str]:
        await self.client.sync(self.paths.root)
        return sorted(await children_or_empty(self.client, self.paths.tombstones))


def run(backend: Backend, test: Callable[[DeletionScene], Awaitable[None]], checkpoints_s: float | None = KEEP_S) -> None:
    run_scene(backend, lambda cluster: test(DeletionScene(cluster, checkpoints_s)))


def test_checkpoint_is_deleted_when_the_period_after_the_deletion_of_the_record_is_over(backend: Backend) -> None:
    async def test(scene: DeletionScene) -> None:
        await scene.end_job("early")
        scene.clock.passed_s = 0.9 * KEEP_S
        await scene.end_job("late")
        await scene.new_collector().collect()
        assert scene.storage.removed == [] and await scene.tombstones() == ["early", "late"]
        scene.clock.passed_s = 1.1 * KEEP_S
        await scene.new_collector().collect()
        assert scene.storage.removed == ["early"] and await scene.tombstones() == ["late"]

    run(backend, test)


def test_job_without_a_tombstone_keeps_its_checkpoint(backend: Backend) -> None:
    """ZooKeeper may have lost the records of running jobs, and another cluster may use the same storage."""

    async def test(scene: DeletionScene) -> None:
        scene.clock.passed_s = 10 * KEEP_S
        assert not await scene.new_collector().collect()
        assert scene.storage.removed == []

    run(backend, test)


def test_no_tombstone_is_written_if_checkpoints_are_kept_forever(backend: Backend) -> None:
    async def test(scene: DeletionScene) -> None:
        await scene.end_job("j1")
        assert await scene.tombstones() == []
        assert await scene.client.exists(scene.paths.tombstones) is None

    run(backend, test, checkpoints_s=None)


def test_job_that_exists_again_keeps_its_checkpoint(backend: Backend) -> None:
    async def test(scene: DeletionScene) -> None:
        for job in ("restored", "quarantined", "gone"):
            await scene.end_job(job)
        await scene.client.commit([Create(scene.paths.job(JobId("restored")))])
        await scene.client.commit([Create(scene.paths.quarantine_entry(JobId("quarantined")))])
        scene.clock.passed_s = 2 * KEEP_S
        await scene.new_collector().collect()
        assert scene.storage.removed == ["gone"] and await scene.tombstones() == []

    run(backend, test)


def test_period_starts_again_if_a_restored_job_is_deleted_again(backend: Backend) -> None:
    async def test(scene: DeletionScene) -> None:
        await scene.end_job("j1")
        scene.clock.passed_s = 2 * KEEP_S
        collector = scene.new_collector()
        await scene._leadership().commit(await collector.build_tombstone(JobId("j1")))
        await collector.collect()
        assert scene.storage.removed == [] and await scene.tombstones() == ["j1"]

    run(backend, test)


def test_checkpoint_that_must_be_kept_is_tried_once_and_the_next_ones_are_deleted(backend: Backend) -> None:
    async def test(scene: DeletionScene) -> None:
        await scene.end_job("foreign")
        await scene.end_job("j1")
        scene.clock.passed_s = 2 * KEEP_S
        await scene.new_collector().collect()
        assert scene.storage.removed == ["j1"] and await scene.tombstones() == []

    run(backend, test)


def test_tombstones_remain_while_the_storage_cannot_be_reached(backend: Backend) -> None:
    async def test(scene: DeletionScene) -> None:
        await scene.end_job("j1")
        scene.clock.passed_s = 2 * KEEP_S
        scene.storage.reachable = False
        collector = scene.new_collector()
        await collector.collect()
        assert await scene.tombstones() == ["j1"]
        scene.storage.reachable = True
        await collector.collect()
        assert scene.storage.removed == ["j1"] and await scene.tombstones() == []

    run(backend, test)


def test_checkpoints_that_cannot_be_deleted_do_not_delay_the_others(backend: Backend) -> None:
    """The first deleted come first, so without a rule they would use up every round."""

    async def test(scene: DeletionScene) -> None:
        await scene.end_job("j0")
        tombstone = (await scene.client.get(scene.paths.tombstone(JobId("j0")))).data
        scene.storage.inaccessible = {"j0", *(f"denied{number}" for number in range(CHECKPOINTS_PER_ROUND_MAX))}
        for job in scene.storage.inaccessible - {"j0"}:
            await scene.client.commit([Create(scene.paths.tombstone(JobId(job)), tombstone)])
        scene.clock.passed_s = 1.0
        await scene.end_job("later")
        scene.clock.passed_s = 2 * KEEP_S
        collector = scene.new_collector()
        await collector.collect()
        await collector.collect()
        assert scene.storage.removed == ["later"]
        assert set(await scene.tombstones()) == scene.storage.inaccessible

    run(backend, test)


def test_number_of_checkpoints_deleted_in_a_round_is_limited(backend: Backend) -> None:
    async def test(scene: DeletionScene) -> None:
        await scene.end_job("j0")
        tombstone = (await scene.client.get(scene.paths.tombstone(JobId("j0")))).data
        for number in range(1, CHECKPOINTS_PER_ROUND_MAX + 3):
            await scene.client.commit([Create(scene.paths.tombstone(JobId(f"j{number}")), tombstone)])
        scene.clock.passed_s = 2 * KEEP_S
        collector = scene.new_collector()
        assert await collector.collect()
        assert len(scene.storage.removed) == CHECKPOINTS_PER_ROUND_MAX
        assert not await collector.collect()
        assert len(set(scene.storage.removed)) == CHECKPOINTS_PER_ROUND_MAX + 3

    run(backend, test)


def test_unreadable_tombstone_deletes_nothing_and_obstructs_nothing(backend: Backend) -> None:
    async def test(scene: DeletionScene) -> None:
        await scene.end_job("j1")
        await scene.end_job("j2")
        stat = (await scene.client.get(scene.paths.tombstone(JobId("j1")))).stat
        await scene.client.commit([SetData(scene.paths.tombstone(JobId("j1")), b"noise", stat.version)])
        scene.clock.passed_s = 2 * KEEP_S
        await scene.new_collector().collect()
        assert scene.storage.removed == ["j2"] and await scene.tombstones() == ["j1"]

    run(backend, test)


def test_superseded_leader_leaves_no_tombstone(backend: Backend) -> None:
    """The tombstone and the deletion of the record are one transaction, which checks the epoch."""

    async def test(scene: DeletionScene) -> None:
        await scene.end_job("j1")
        await scene.client.commit([SetData(scene.paths.epoch, b"", 0)])
        collector = scene.new_collector()
        operations = await collector.build_tombstone(JobId("j2"))
        await scene._leadership().commit(operations)
        assert await scene.tombstones() == ["j1"]

    run(backend, test)
