"""Batched reads of jobs, in the order that the leader's decisions require."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import cast

from holdfast.leader.job_observation import NO_RECORDS, JobObservation
from holdfast.model.identifiers import JobId
from holdfast.model.versions import FIRST_VERSION
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Read, Znode

# Parts of a job in the order in which they are read; the value is True for a part that is watched.
_PARTS_OF_LIVE_JOB: Mapping[str, bool] = MappingProxyType({"spec": False, "desired": True, "lease": False})
_PARTS_OF_OTHER_JOB: Mapping[str, bool] = MappingProxyType(
    {"report": True, "spec": False, "desired": True, "attempt": False, "lease": False}
)


class ObservationReader:
    def __init__(self, client: Client, paths: Paths) -> None:
        self._client = client
        self._paths = paths

    async def read(self, jobs: Sequence[JobId], was_running: Callable[[JobId], bool]) -> list[JobObservation]:
        """Return an observation of each job that exists. Raise the errors of a Client.

        `was_running` returns True if the previous observation was of a running job, or if there is none.
        """
        live, others, ended = await self._read_states(jobs)
        live, lease_lost = await self._read_live(live, was_running)
        return [*ended, *live, *await self._read_others([*others, *lease_lost])]

    async def _read_states(
        self, jobs: Sequence[JobId]
    ) -> tuple[list[JobObservation], list[JobObservation], list[JobObservation]]:
        """Return the jobs that have a lease, the other jobs that have not ended, and the ended jobs."""
        live: list[JobObservation] = []
        others: list[JobObservation] = []
        ended: list[JobObservation] = []
        # A leader knows the states that it has written. The watches on them serve the observers of standby nodes.
        results = await self._client.read_many(
            [
                read
                for job in jobs
                for read in (
                    Read(self._paths.job(job, "state"), watch=True),
                    Read(self._paths.job(job), children=True, watch=True),
                )
            ]
        )
        for job, state, children in zip(jobs, results[::2], results[1::2], strict=True):
            if isinstance(children, list):
                znodes = {"state": cast(Znode | None, state)}
                observation = JobObservation(job, znodes, NO_RECORDS.add(znodes))
                group = ended if observation.has_ended else live if "lease" in children else others
                group.append(observation)
        return live, others, ended

    async def _read_live(
        self, observations: list[JobObservation], was_running: Callable[[JobId], bool]
    ) -> tuple[list[JobObservation], list[JobObservation]]:
        """Return the live jobs, and the jobs whose lease has disappeared since their children were listed.

        Only the parts that the leader needs to leave a live attempt alone are read, so that a thousand attempts take a moment.
        The lease is not watched, because each heartbeat changes it: the watch on the job's children reports its deletion. The
        report of an attempt that has just started is watched, because its note arrives there. This watch is set again,
        because the previous one may have fired for a change that was read together with it.
        """
        started = [each.id for each in observations if not (each.is_running and was_running(each.id))]
        await self._client.read_many([Read(self._paths.job(job, "report"), watch=True) for job in started])
        live, lease_lost = [], []
        for observation, znodes in await self._read_parts(observations, _PARTS_OF_LIVE_JOB):
            if znodes["lease"] is None:
                lease_lost.append(observation)
            else:
                live.append(observation.add(znodes))
        return await self._add_later_specs(live), lease_lost

    async def _read_others(self, observations: list[JobObservation]) -> list[JobObservation]:
        """Read the jobs that seem to have no lease.

        The report is read before the lease. A driver that starts in between changes the report, so the leader's transaction
        fails its version check. With the opposite order, a decision from a missing lease could pass.
        """
        read = await self._read_parts(observations, _PARTS_OF_OTHER_JOB)
        observations = await self._add_later_specs([observation.add(znodes) for observation, znodes in read])
        claimed = {each.id: path for each in observations if (path := each.claimed_name(self._paths)) is not None}
        znodes = await self._read_znodes([Read(path) for path in claimed.values()])
        names = dict(zip(claimed, znodes, strict=True))
        return [replace(observation, name=names.get(observation.id)) for observation in observations]

    async def _add_later_specs(self, observations: list[JobObservation]) -> list[JobObservation]:
        """Replace the spec of each job that was upgraded. Most jobs have the first version, which is already read."""
        upgraded = [each for each in observations if each.spec_version != FIRST_VERSION]
        znodes = await self._read_znodes([Read(self._paths.spec(each.id, each.spec_version)) for each in upgraded])
        specs = {each.id: znode for each, znode in zip(upgraded, znodes, strict=True)}
        return [each.add({"spec": specs[each.id]}) if each.id in specs else each for each in observations]

    async def _read_parts(
        self, observations: list[JobObservation], parts: Mapping[str, bool]
    ) -> list[tuple[JobObservation, dict[str, Znode | None]]]:
        """Read the parts of one job after the other, each job's parts in the given order."""
        reads = [Read(self._paths.job(each.id, part), watch=watch) for each in observations for part, watch in parts.items()]
        znodes = iter(await self._read_znodes(reads))
        return [(each, {part: next(znodes) for part in parts}) for each in observations]

    async def _read_znodes(self, reads: list[Read]) -> list[Znode | None]:
        return cast(list[Znode | None], await self._client.read_many(reads))
