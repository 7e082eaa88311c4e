"""Upgrade a job: add a spec version and request it in the desired record, in one transaction."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from holdfast.errors import Conflict, OutcomeUnknown, Refused, Unavailable
from holdfast.model.codec import MalformedRecord, NewerSchema, decode, encode
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, DesiredRecord, JobState, Spec
from holdfast.model.versions import FIRST_VERSION
from holdfast.zk.records.announced_schemas import read_schema_for_writing, require_readers
from holdfast.zk.records.paths import SPEC_PREFIX, Paths
from holdfast.zk.records.submission import TRIES_MAX, hash_spec
from holdfast.zk.session.client import Check, Client, Committed, Create, NodeExists, NoNode, Operation, Reader, SetData, Znode
from holdfast.zk.session.missing_znode import children_or_empty, none_if_missing

VERSIONS_MAX = 1000

SpecChange = Callable[[Spec], Spec]
"""Function from the current spec to the new one."""


async def upgrade(client: Client, paths: Paths, job: JobId, change: SpecChange, *, trial_s: float) -> int | None:
    """Add a spec version and return its number, or None if the spec does not change.

    `change` gets the spec that the next attempt would run. `trial_s` is how long the new version is on trial.
    Raises Refused if the job has ended, was cancelled or does not exist.
    """
    sent: Spec | None = None
    schema = await read_schema_for_writing(client, paths)
    for _ in range(TRIES_MAX):
        base = await _read_base(client, paths, job)
        if sent is not None and hash_spec(base.spec) == hash_spec(sent):
            return base.desired_record.version  # the transaction whose reply was lost did take effect
        if base.has_ended:
            raise Refused(f"job {job} has ended or was cancelled: submit it as a new job")
        spec = change(base.spec)
        if hash_spec(spec) == hash_spec(base.spec):
            return None
        await require_readers(client, paths, spec)
        if base.new_version > VERSIONS_MAX:
            raise Refused(f"job {job} has reached the limit of {VERSIONS_MAX} versions: submit it as a new job")
        try:
            outcome = await client.commit(_upgrade_operations(paths, job, base, spec, trial_s, schema))
        except OutcomeUnknown:
            sent = spec
            continue
        if isinstance(outcome, Committed):
            return base.new_version
        if not isinstance(outcome.error, Conflict | NodeExists):
            raise outcome.error
    raise Unavailable(f"job {job} was changed by others during each of {TRIES_MAX} tries: try again")


@dataclass(frozen=True, slots=True)
class _UpgradeBase:
    """The job's znodes from which an upgrade is decided."""

    desired: Znode
    state: Znode
    desired_record: DesiredRecord
    has_ended: bool
    spec: Spec
    """Spec that the next attempt would run without the upgrade."""
    new_version: int


async def _read_base(client: Client, paths: Paths, job: JobId) -> _UpgradeBase:
    await client.sync(paths.job(job))
    try:
        desired = await client.get(paths.job(job, "desired"))
        state = await client.get(paths.job(job, "state"))
        parts = await client.children(paths.job(job))
    except NoNode:
        raise Refused(f"there is no job {job}") from None
    desired_record = decode(DesiredRecord, desired.data, where=f"the desired record of job {job}")
    current = decode(JobState, state.data, where=f"the state of job {job}")
    return _UpgradeBase(
        desired,
        state,
        desired_record,
        has_ended=desired_record.desired is Desired.CANCEL or current.phase.final,
        spec=await _read_spec(client, paths, job, current.versions.next_version(desired_record.version)),
        new_version=1 + max(_version_numbers(parts), default=FIRST_VERSION),
    )


def _upgrade_operations(
    paths: Paths, job: JobId, base: _UpgradeBase, spec: Spec, trial_s: float, schema: int
) -> list[Operation]:
    desired_record = replace(base.desired_record, version=base.new_version, trial_s=trial_s, force=False, run_now=False)
    return [
        Check(paths.job(job, "state"), base.state.stat.version),
        Create(paths.spec(job, base.new_version), encode(spec, schema=schema)),
        SetData(paths.job(job, "desired"), encode(desired_record, schema=schema), base.desired.stat.version),
    ]


@dataclass(frozen=True, slots=True)
class SpecVersion:
    number: int
    spec: Spec | None
    """None if it is unreadable."""
    created_ms: int

    @property
    def submitter(self) -> str:
        return self.spec.by if self.spec is not None else ""


async def read_versions(client: Reader, paths: Paths, job: JobId) -> list[SpecVersion]:
    """Return all versions of the job's spec, the first one first."""
    versions: list[SpecVersion] = []
    parts = await children_or_empty(client, paths.job(job))
    for number in (*([FIRST_VERSION] if "spec" in parts else []), *sorted(_version_numbers(parts))):
        path = paths.spec(job, number)
        if (znode := await none_if_missing(client.get(path))) is None:
            continue
        try:
            spec = decode(Spec, znode.data, where=path)
        except (MalformedRecord, NewerSchema):
            spec = None
        versions.append(SpecVersion(number, spec, znode.stat.created_ms))
    return versions


async def _read_spec(client: Reader, paths: Paths, job: JobId, version: int) -> Spec:
    path = paths.spec(job, version)
    try:
        return decode(Spec, (await client.get(path)).data, where=path)
    except NoNode:
        raise Refused(f"version {version} of job {job} was deleted: {path} does not exist") from None


def _version_numbers(parts: list[str]) -> list[int]:
    """Return the numbers of the later spec versions among the names of a job's znodes."""
    suffixes = (part.removeprefix(SPEC_PREFIX) for part in parts if part.startswith(SPEC_PREFIX))
    return [int(number) for number in suffixes if number.isascii() and number.isdigit()]
