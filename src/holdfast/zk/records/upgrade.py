"""Another version of a job: its spec beside the ones before, and the word that it is wanted, in one transaction."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.errors import Conflict, OutcomeUnknown, Refused, Unavailable
from holdfast.model.codec import Garbage, NewerSchema, decode, encode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Spec, State, Wanted
from holdfast.model.versions import FIRST
from holdfast.zk.records.job_reader import optional
from holdfast.zk.records.paths import SPEC_PREFIX, Paths
from holdfast.zk.records.submission import TRIES_MAX, digest
from holdfast.zk.session.client import Check, Client, Committed, Create, NodeExists, NoNode, SetData

VERSIONS_MAX = 1000

Change = Callable[[Spec], Spec]
"""From the spec that the job runs to the one that it shall run."""


async def upgrade(client: Client, paths: Paths, job: JobId, change: Change, *, trial_s: float) -> int | None:
    """The number of the new version; None if the job runs just that already, or is about to."""
    sent: Spec | None = None
    for _ in range(TRIES_MAX):
        await client.sync(paths.job(job))
        try:
            desired = await client.get(paths.job(job, "desired"))
            state = await client.get(paths.job(job, "state"))
            parts = await client.children(paths.job(job))
        except NoNode:
            raise Refused(f"there is no job {job}") from None
        wanted = decode(Wanted, desired.data, where=f"what is wanted of {job}")
        stands = decode(State, state.data, where=f"the state of {job}")
        now = await _spec(client, paths, job, stands.versions.next(wanted.version))
        if sent is not None and digest(now) == digest(sent):
            return wanted.version  # the reply was lost, and it was done
        if wanted.desired is Desired.CANCEL or stands.phase.final:
            raise Refused(f"job {job} has ended or was cancelled, and stays so")
        spec = change(now)
        if digest(spec) == digest(now):
            return None
        version = 1 + max(_numbers(parts), default=FIRST)
        if version > VERSIONS_MAX:
            raise Refused(f"job {job} has had {VERSIONS_MAX} versions, and more are not kept: submit it as a new job")
        word = encode(replace(wanted, version=version, trial_s=trial_s, force=False))
        try:
            outcome = await client.commit(
                [
                    Check(paths.job(job, "state"), state.stat.version),
                    Create(paths.spec(job, version), encode(spec)),
                    SetData(paths.job(job, "desired"), word, desired.stat.version),
                ]
            )
        except OutcomeUnknown:
            sent = spec
            continue
        if isinstance(outcome, Committed):
            return version
        if not isinstance(outcome.error, Conflict | NodeExists):
            raise outcome.error
    raise Unavailable(f"somebody else keeps changing job {job}")


@dataclass(frozen=True, slots=True)
class Version:
    number: int
    spec: Spec | None
    """None if it cannot be read."""
    made_ms: int

    @property
    def by(self) -> str:
        return self.spec.by if self.spec is not None else ""


async def read_versions(client: Client, paths: Paths, job: JobId) -> list[Version]:
    """All there are, the first one first."""
    versions: list[Version] = []
    parts = await optional(client.children(paths.job(job))) or []
    for number in (*([FIRST] if "spec" in parts else []), *sorted(_numbers(parts))):
        path = paths.spec(job, number)
        if (znode := await optional(client.get(path))) is None:
            continue
        try:
            spec = decode(Spec, znode.data, where=path)
        except (Garbage, NewerSchema):
            spec = None
        versions.append(Version(number, spec, znode.stat.created_ms))
    return versions


async def _spec(client: Client, paths: Paths, job: JobId, version: int) -> Spec:
    path = paths.spec(job, version)
    try:
        return decode(Spec, (await client.get(path)).data, where=path)
    except NoNode:
        raise Refused(f"version {version} of job {job} is gone: {path}") from None


def _numbers(parts: list[str]) -> list[int]:
    found = (part.removeprefix(SPEC_PREFIX) for part in parts if part.startswith(SPEC_PREFIX))
    return [int(number) for number in found if number.isascii() and number.isdigit()]
