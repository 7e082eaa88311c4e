"""Jobs as a client sees them: whatever can be read of them, and in words what cannot.

One damaged job never keeps the others from being seen. Nothing here writes.
"""

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from holdfast.errors import Refused, Unavailable
from holdfast.model.codec import Garbage, NewerSchema, decode
from holdfast.model.identifiers import Attempt, JobId, NodeId, is_name
from holdfast.model.job import NO_ATTEMPT, Lease, Progress, Report, Spec, State, Wanted
from holdfast.model.phase import Phase
from holdfast.model.versions import FIRST
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.submission import NameRecord
from holdfast.zk.session.client import Client, NoNode, Read, Znode

TOGETHER = 100
"""Jobs that are asked about at the same time."""
SILENCE_S_MAX = 4.0
AGAIN_S = 0.1
PREFIX_MIN = 4
"""Of an id. A shorter one is too easily a slip."""
LISTED_MAX = 10

Answer = TypeVar("Answer")
Item = TypeVar("Item")
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Job:
    """What its znodes tell. A part that is missing or cannot be read is None, and `defects` says so."""

    id: JobId
    name: str | None
    submitted_ms: int | None
    spec: Spec | None = None
    wanted: Wanted | None = None
    state: State | None = None
    lease: Lease | None = None
    report: Report | None = None
    given: Attempt = NO_ATTEMPT
    """The last attempt that was given out, as the znode's version tells it; only looked at if the state does not tell."""
    quarantined: bool = False
    """Whether its record stands in quarantine."""
    defects: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.name} ({self.id})" if self.name is not None else self.id

    @property
    def ended(self) -> bool:
        return self.state is not None and self.state.phase.final

    @property
    def phase(self) -> Phase | None:
        """None if nobody can tell."""
        if self.quarantined and not self.ended:
            return Phase.QUARANTINED
        return self.state.phase if self.state is not None else None

    @property
    def reason(self) -> str:
        if self.phase is Phase.QUARANTINED and self.state is not None and self.state.phase is not Phase.QUARANTINED:
            # It was put back by hand after it had been set aside. What it says of itself is not how it stands.
            return "it was set aside before what is there now was put there; 'quarantine show' says why"
        if self.state is not None and (not self.defects or self.state.phase is Phase.QUARANTINED):
            # A leader looks at what is alive now and then. What it has to say is in its lease at once.
            news = self.lease if self.phase is Phase.RUNNING else None
            return news.reason if news is not None and news.note not in self.state.reason else self.state.reason
        alive = f"attempt {self.lease.attempt} is alive on {self.lease.node}" if self.lease is not None else None
        known = self.state.reason if self.state is not None else alive
        return "; ".join((*self.defects, *([known] if known is not None else [])))

    @property
    def attempt(self) -> Attempt:
        noted = self.state.attempt if self.state is not None else self.given
        return max(noted, self.lease.attempt) if self.lease is not None else noted

    @property
    def restarts(self) -> int:
        return self.state.restarts if self.state is not None else 0

    @property
    def node(self) -> NodeId | None:
        if self.lease is not None:
            return self.lease.node
        return self.state.node if self.state is not None else None

    @property
    def progress(self) -> Progress:
        """Of what is alive; otherwise how far it had come, at no speed."""
        if self.lease is not None:
            return self.lease.progress or Progress()
        last = self.report.progress if self.report is not None else None
        return replace(last, rows_per_second=None) if last is not None else Progress()

    @property
    def since(self) -> float | None:
        """Wall time of its last change."""
        if self.state is not None and self.state.events:
            return self.state.events[-1].wall
        return self.submitted_ms / 1000 if self.submitted_ms is not None else None


def slots_used(jobs: Iterable[Job]) -> Counter[NodeId]:
    """By node, counted as the leader counts them."""
    used: Counter[NodeId] = Counter()
    for job in jobs:
        slots = job.spec.slots if job.spec is not None else 1
        if job.lease is not None:
            used[job.lease.node] += slots
        elif job.state is not None and job.state.phase.occupies_slots and job.state.node is not None:
            used[job.state.node] += slots
    return used


async def read_jobs(client: Client, paths: Paths, *, ended: bool) -> list[Job]:
    """All that live, and with `ended` the others too. In no particular order."""
    ids = [JobId(name) for name in await _children(client, paths.jobs)]
    quarantined = set(map(JobId, await _children(client, paths.quarantine)))
    found = await _in_groups(lambda some: _read(client, paths, some, quarantined, ended=ended), ids)
    return await _with_names(client, paths, found)


async def read_job(client: Client, paths: Paths, id: JobId) -> Job | None:
    """None if it is not there."""
    quarantined = [id] if await client.exists(paths.quarantined(id)) is not None else []
    found = await _read(client, paths, [id], quarantined, ended=True)
    return (await _with_names(client, paths, found))[0] if found else None


async def find_job(client: Client, paths: Paths, text: str) -> Job:
    """By id, name or the beginning of an id. The name of a live job comes before those of jobs that ended."""
    ids = sorted(map(JobId, await _children(client, paths.jobs)))
    id = JobId(text) if text in ids else await _by_name(client, paths, ids, text) if is_name(text) else None
    if id is None:
        id = _by_beginning(ids, text)
    job = await read_job(client, paths, id) if id is not None else None
    if job is None:
        raise Refused(f"there is no job '{text}'; 'holdfast ls --all' lists them")
    return job


async def _by_name(client: Client, paths: Paths, ids: list[JobId], name: str) -> JobId | None:
    owner = await optional(client.get(paths.name(name)))
    if owner is not None and (job := _owner(owner)) in ids:
        return job
    # A whole name comes before the beginning of an id: whoever types it means it.
    specs = await _in_groups(lambda some: _znodes(client, [paths.job(id, "spec") for id in some]), ids)
    called = [(spec.stat.created_ms, id) for id, spec in zip(ids, specs, strict=True) if spec and _name_in(spec) == name]
    return max(called)[1] if called else None


def _by_beginning(ids: list[JobId], text: str) -> JobId | None:
    fitting = [id for id in ids if id.startswith(text)] if len(text) >= PREFIX_MIN else []
    if len(fitting) > 1:
        listed = ", ".join(fitting[:LISTED_MAX]) + (" and others" if len(fitting) > LISTED_MAX else "")
        raise Refused(f"'{text}' could be any of {len(fitting)} jobs: {listed}")
    return fitting[0] if fitting else None


async def _with_names(client: Client, paths: Paths, jobs: list[Job]) -> list[Job]:
    """A job whose spec cannot be read is still known by the name that points to it."""
    if all(job.name is not None for job in jobs):
        return jobs
    names = await _children(client, paths.names)
    owners = await _in_groups(lambda some: _znodes(client, map(paths.name, some)), names)
    called = {_owner(owner): name for name, owner in zip(names, owners, strict=True) if owner is not None}
    return [job if job.name is not None else replace(job, name=called.get(job.id)) for job in jobs]


def _owner(znode: Znode) -> JobId | None:
    try:
        return decode(NameRecord, znode.data, where="the name").job
    except (Garbage, NewerSchema):
        return None


def _name_in(znode: Znode) -> str | None:
    try:
        return decode(Spec, znode.data, where="the spec").name
    except (Garbage, NewerSchema):
        return None


async def _read(
    client: Client, paths: Paths, ids: Sequence[JobId], quarantined: Collection[JobId], *, ended: bool
) -> list[Job]:
    """Those that are there, and without `ended` only those that have not."""
    states = await _znodes(client, [paths.job(id, "state") for id in ids])
    drafts = [_Draft(id, znode) for id, znode in zip(ids, states, strict=True)]
    drafts = [draft for draft in drafts if ended or draft.state is None or not draft.state.phase.final]
    found = iter(await _znodes(client, [paths.job(draft.id, part) for draft in drafts for part in draft.parts]))
    for draft in drafts:
        draft.found = {part: next(found) for part in draft.parts}
    empty = [draft.id for draft in drafts if draft.empty]
    there = await client.read([Read(paths.job(id), children=True) for id in empty])
    gone = {id for id, names in zip(empty, there, strict=True) if names is None}
    drafts = [draft for draft in drafts if draft.id not in gone]
    later = [draft for draft in drafts if draft.version != FIRST]
    specs = await _znodes(client, [paths.spec(draft.id, draft.version) for draft in later])
    for draft, spec in zip(later, specs, strict=True):
        draft.later_spec = spec
    return [draft.job(quarantined=draft.id in quarantined) for draft in drafts]


class _Draft:
    """A job while its parts are being read."""

    def __init__(self, id: JobId, znode: Znode | None) -> None:
        self.id = id
        self._znode = znode
        self._reading = _Parts()
        self.state = self._reading.take(State, znode, "state")
        self.found: dict[str, Znode | None] = {}
        self.later_spec: Znode | None = None
        """Of `version`, if that is not the first."""

    @property
    def parts(self) -> list[str]:
        """What else there is to be read."""
        parts = ["spec", "desired"]
        if self.state is None or self.state.attempt != NO_ATTEMPT:
            parts += ["lease", "report"]
        return parts if self.state is not None else [*parts, "attempt"]

    @property
    def empty(self) -> bool:
        return self._znode is None and not any(self.found.values())

    @functools.cached_property
    def wanted(self) -> Wanted | None:
        return self._reading.take(Wanted, self.found["desired"], "desired")

    @property
    def version(self) -> int:
        return _version(self.state, self.wanted)

    def job(self, *, quarantined: bool) -> Job:
        wanted, found, reading = self.wanted, self.found, self._reading
        spec = reading.take(Spec, found["spec"] if self.version == FIRST else self.later_spec, "spec")
        report, attempt = found.get("report"), found.get("attempt")
        first = found["spec"] or found["desired"] or self._znode
        return Job(
            id=self.id,
            name=spec.name if spec is not None else None,
            submitted_ms=first.stat.created_ms if first is not None else None,
            spec=spec,
            wanted=wanted,
            state=self.state,
            lease=reading.take(Lease, found.get("lease"), "lease", may_be_missing=True),
            report=reading.take(Report, report, "report", may_be_missing=True) if report is not None and report.data else None,
            given=Attempt(attempt.stat.version) if attempt is not None else NO_ATTEMPT,
            quarantined=quarantined,
            defects=tuple(reading.defects),
        )


def _version(state: State | None, wanted: Wanted | None) -> int:
    """Of the spec that counts: what runs, and otherwise what would."""
    if state is None:
        return wanted.version if wanted is not None else FIRST
    if state.phase.occupies_slots or wanted is None:
        return state.versions.current
    return state.versions.next(wanted.version)


class _Parts:
    """Reads the parts of one job, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.defects: list[str] = []

    def take(self, kind: type[Record], znode: Znode | None, what: str, *, may_be_missing: bool = False) -> Record | None:
        if znode is None:
            if not may_be_missing:
                self.defects.append(f"it has no {what}")
            return None
        try:
            return decode(kind, znode.data, where=f"its {what}")
        except (Garbage, NewerSchema) as error:
            self.defects.append(str(error))
            return None


async def _in_groups(ask: Callable[[Sequence[Item]], Awaitable[list[Answer]]], items: Sequence[Item]) -> list[Answer]:
    """In the order of the items.

    A connection that is lost meanwhile costs only the group that was asked about: on a busy machine it may happen every second,
    and to begin with the first one each time would never come to an end.
    """
    loop = asyncio.get_running_loop()
    answers: list[Answer] = []
    for first in range(0, len(items), TOGETHER):
        answered_at = loop.time()
        while True:
            try:
                answers += await ask(items[first : first + TOGETHER])
                break
            except Unavailable:
                if loop.time() > answered_at + SILENCE_S_MAX:
                    raise
                await asyncio.sleep(AGAIN_S)
    return answers


async def _znodes(client: Client, paths: Iterable[str]) -> list[Znode | None]:
    return cast(list[Znode | None], await client.read([Read(path) for path in paths]))


async def optional(call: Awaitable[Answer]) -> Answer | None:
    try:
        return await call
    except NoNode:
        return None


async def _children(client: Client, path: str) -> list[str]:
    return await optional(client.children(path)) or []
