"""What a cluster has to tell of itself: its events, from ZooKeeper, and what drivers have printed, from their nodes.

What cannot be had is a note, and keeps nobody from the rest.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.cli.commands.events import happening_as_json, happenings
from holdfast.client import local_logs
from holdfast.client.attempt_log import AttemptLog, Seen, ran_on
from holdfast.client.log_copies import Copies
from holdfast.client.retry import Conversation
from holdfast.client.target import Target
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.local.directory_layout import Layout
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.phase import Phase
from holdfast.node.attempts import KEPT_PER_JOB
from holdfast.zk.records.cluster_view import observe
from holdfast.zk.records.job_reader import Job, optional, read_jobs
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client

EVENTS = "events of the cluster"
NAMED_MAX = 3
_AT_EASE = (Phase.RUNNING, Phase.FINISHED, Phase.CANCELLED)


@dataclass(frozen=True, slots=True)
class Sight:
    """The cluster, as ZooKeeper shows it."""

    jobs: tuple[Job, ...] = ()
    secret: str = ""
    addresses: tuple[tuple[NodeId, str], ...] = ()


async def copy_cluster(target: Target, copies: Copies) -> None:
    """All that there is, into `copies`. Raises Unavailable, or Refused, if that is nothing."""
    sight, trouble = Sight(), None
    try:
        async with Conversation(target) as conversation:
            sight = await conversation.ask(lambda client: _look(client, target.paths))
    except HoldfastError as error:
        trouble = error
        copies.notes.append(f"what ZooKeeper knows of the cluster is not in this: {error}")
    local = Layout(target.directory) if target.directory is not None else None
    names = _names(sight.jobs)
    copies.add(EVENTS, map(_line, _events(sight.jobs, local)))
    if local is not None:
        local_logs.copy_daemons(local, copies)
        local_logs.copy_attempts(local, names, copies)
    else:
        await _Fetching(sight, names, copies).run()
    if trouble is not None and not copies.files:
        raise trouble


async def _look(client: Client, paths: Paths) -> Sight:
    view = await observe(client, paths)
    secret = await optional(client.get(paths.secret))
    if secret is None:
        raise Refused("no node has ever joined this cluster, so there is nothing to explain")
    jobs = await read_jobs(client, paths, ended=True)
    addresses = tuple((node, record.address) for node, record in view.nodes)
    return Sight(tuple(jobs), secret.data.decode(errors="replace"), addresses)


def _names(jobs: Iterable[Job]) -> dict[str, str]:
    """By id. Of jobs of one name, which were submitted one after the other, with the id."""
    often = Counter(job.name for job in jobs)
    return {job.id: job.name if job.name is not None and often[job.name] == 1 else job.label for job in jobs}


def _events(jobs: Iterable[Job], local: Layout | None) -> list[dict[str, Any]]:
    """Each change of each job once: ZooKeeper has the last ones, nodes those that they have brought about."""
    names = {str(job.id): job.name for job in jobs}
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for event in local_logs.events_of(local) if local is not None else ():
        told = {key: event.get(key) for key in ("time", "job")}
        found[event["job"], event["number"]] = {**told, "name": names.get(event["job"]), **event}
    for happening in happenings(list(jobs)):
        found[happening.job.id, happening.event.number] = happening_as_json(happening)
    return sorted(found.values(), key=lambda event: (str(event.get("time")), event["job"], event["number"]))


def _line(event: dict[str, Any]) -> bytes:
    return (json.dumps(event, ensure_ascii=False) + "\n").encode(errors="replace")


class _Fetching:
    """Each node is asked for what drivers have printed there, until it does not answer."""

    def __init__(self, sight: Sight, names: dict[str, str], copies: Copies) -> None:
        self._sight = sight
        self._names = names
        self._copies = copies
        self._addresses = dict(sight.addresses)
        self._missing: dict[NodeId, list[str]] = {}

    async def run(self) -> None:
        """Jobs that do not run first, and of each the newest attempt."""
        for job in sorted(self._sight.jobs, key=lambda job: (job.phase in _AT_EASE, job.name or "", job.id)):
            for attempt in range(job.attempt, max(0, job.attempt - KEPT_PER_JOB), -1):
                await self._fetch(job, Attempt(attempt))
        for node, names in sorted(self._missing.items()):
            more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
            named = "; ".join(names[:NAMED_MAX])
            self._copies.notes.append(f"node {node} does not answer: what it has is not in this ({named}{more})")

    async def _fetch(self, job: Job, attempt: Attempt) -> None:
        name = f"job {self._names[job.id]}, attempt {attempt}"
        known = ran_on(job, attempt)
        for node in [known] if known is not None else sorted(self._addresses):
            if node not in self._addresses:
                self._missing.setdefault(node, []).append(name)
                continue
            try:
                await self._copy(job, attempt, node, name)
                return
            except Unavailable:
                del self._addresses[node]
                self._missing.setdefault(node, []).append(name)
            except Refused:
                continue  # it has nothing of it, or not any more

    async def _copy(self, job: Job, attempt: Attempt, node: NodeId, name: str) -> None:
        log, seen = AttemptLog(job.id, attempt), Seen(job, self._sight.secret, {node: self._addresses[node]})
        piece = await log.read(seen)
        with self._copies.begin(name) as copying:
            copying.write(piece.data)
            while not piece.last and not copying.full:
                piece = await log.read(seen)
                copying.write(piece.data)
