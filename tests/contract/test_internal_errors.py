"""Internal errors of the leader, on a simulated and on a real ZooKeeper: they affect one job and are logged once."""

from dataclasses import replace

from holdfast.model.identifiers import JobId
from holdfast.model.job import Ending, Outcome
from holdfast.model.phase import Phase
from holdfast.zk.records.submission import submit
from tests.contract.backends import Backend
from tests.contract.leader_scene import JOB, ContractCluster, ErrorRaisingLog, run_scene
from tests.contract.new_cluster import SPEC

OTHER = JobId("j2")


class ErrorLog(ErrorRaisingLog):
    def __init__(self) -> None:
        self.errors: list[tuple[str, object]] = []

    def error(self, event: str, **context: object) -> None:
        self.errors.append((event, context["job"]))


def test_leader_manages_the_other_jobs_if_it_cannot_decide_about_one(backend: Backend) -> None:
    async def scene(cluster: ContractCluster) -> None:
        log = ErrorLog()
        cluster.leader = cluster.new_leader(log)
        unknown = replace(SPEC, restart="a strategy of a later release")
        await submit(cluster.client, cluster.paths, unknown, job=JOB, request="r1")
        await cluster.run_passes_until_idle()
        lease = await cluster.open_lease(1)
        await lease.take(started_at=1.0, failsafe=())
        await lease.release(Outcome(Ending.FAILED, "exit code 1"), None)
        await submit(cluster.client, cluster.paths, replace(SPEC, name="other"), job=OTHER, request="r2")
        await cluster.run_passes_until_idle()
        assert (await cluster.state(OTHER)).phase is Phase.STARTING
        assert log.errors == [("internal error", JOB)]

    run_scene(backend, scene)
