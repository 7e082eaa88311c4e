"""A job's checkpoint, for `holdfast show`: how far its queries are, and what is wrong with it. No Spark is started for that."""

import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from holdfast.checkpoint import Known, Query
from holdfast.cli.render.times import age, iso
from holdfast.errors import HoldfastError, Unavailable
from holdfast.kafka.check.operator_choice import Lost, lost_in
from holdfast.runner.driver_command import checkpoint_root
from holdfast.storage import KAFKA_LOST, Checkpoints, Claims, in_storage
from holdfast.zk.records.job_reader import Job

LOOK_S = 10.0
"""For the whole look. A storage that is away must not keep anybody waiting."""
FINDINGS_SHOWN = 5


@dataclass(slots=True)
class Sight:
    location: str | None = None
    """The root of the job's checkpoint, as Spark spells it."""
    queries: list[tuple[str, Query]] = field(default_factory=list)
    """Each with its own location."""
    known: Known = field(default_factory=Known)
    lost: Lost | None = None
    """What the offset guard has found, if it parked the job."""
    problem: str | None = None
    """Why nothing, or not all, could be looked at."""


def look(job: Job, storage: str | None) -> Sight:
    """Never raises: what cannot be looked at is told."""
    if job.spec is None or storage is None:
        return Sight(problem="nobody can say where it is")
    try:
        sight = Sight(checkpoint_root(job.spec, job.id, storage))
    except HoldfastError as error:
        return Sight(problem=str(error))
    found = Sight(sight.location)
    looking = threading.Thread(target=_look, args=(found, storage), daemon=True)
    looking.start()
    looking.join(LOOK_S)
    if looking.is_alive():
        sight.problem = f"it has not answered for {LOOK_S:g} s"
        return sight
    return found


def _look(sight: Sight, storage: str) -> None:
    root = str(sight.location).rstrip("/")
    try:
        place = in_storage(root, storage)
        claims = Claims(place, silence_s=LOOK_S)
        sight.known = claims.queries() or Known()
        sight.lost = lost_in(claims.note(KAFKA_LOST))
        sight.queries = [
            (f"{root}/{query.place}".rstrip("/"), query) for query in Checkpoints(place, silence_s=LOOK_S).queries()
        ]
        there = {location for location, _ in sight.queries}
        for known in sight.known.queries:
            if known.location and known.location not in there:
                sight.queries += _elsewhere(known.location, storage)
    except HoldfastError as error:
        sight.problem = str(error)


def _elsewhere(location: str, storage: str) -> Iterator[tuple[str, Query]]:
    found = [query for query in Checkpoints(in_storage(location, storage), silence_s=LOOK_S).queries() if not query.place]
    if not found:
        raise Unavailable(f"{location} has no checkpoint any more")
    yield from ((location, query) for query in found)


def as_json(sight: Sight) -> dict[str, Any]:
    """Scripts rely on these keys."""
    return {
        "location": sight.location,
        "problem": sight.problem,
        "queries": [_query_as_json(location, query, sight.known) for location, query in sight.queries],
    }


def _query_as_json(location: str, query: Query, known: Known) -> dict[str, Any]:
    noted = known.at(location)
    return {
        "location": location,
        "name": noted.name or None if noted is not None else None,
        "sink": {"format": noted.format, "path": noted.path or None} if noted is not None and noted.format else None,
        "id": query.id or None,
        "planned": query.planned,
        "committed": query.committed,
        "modified_at": iso(query.modified_wall_s),
        "batches": [
            {
                "number": batch.number,
                "planned_at": iso(batch.planned_wall_s),
                "committed_at": iso(batch.committed_wall_s),
                "watermark_ms": batch.watermark_ms,
                "offsets": list(batch.offsets),
            }
            for batch in query.batches
        ],
        "state": [asdict(operator) for operator in query.operators],
        "findings": [{"file": each.file, "problem": each.problem, "harms": each.harms} for each in query.findings],
    }


def facts(sight: Sight, now: float) -> list[tuple[str, str]]:
    """For people."""
    where = sight.location or "?"
    told = [("checkpoint", f"{where}: {sight.problem}" if sight.problem is not None else where)]
    if sight.problem is None and not sight.queries:
        told = [("checkpoint", f"{where}: there is none yet")]
    for location, query in sight.queries:
        place = location.removeprefix(f"{sight.location}/") if location != sight.location else "its query"
        told.append(("", f"{place}: {', '.join(_summary(query, now))}"))
        worst = sorted(query.findings, key=lambda finding: not finding.harms)
        told += [("", f"{place}: {'' if each.harms else '(harmless) '}{each}") for each in worst[:FINDINGS_SHOWN]]
        if len(worst) > FINDINGS_SHOWN:
            told.append(("", f"{place}: and {len(worst) - FINDINGS_SHOWN} more findings (--json has all)"))
    return told


def _summary(query: Query, now: float) -> Iterator[str]:
    if query.committed is None:
        yield "no batch committed yet"
    else:
        yield f"batch {query.committed:,} committed"
    if query.planned is not None and query.planned != query.committed:
        yield f"batch {query.planned:,} planned"
    if query.modified_wall_s is not None:
        yield f"written {age(query.modified_wall_s, now)} ago"
    for operator in query.operators:
        versions = f"{operator.version_min}–{operator.version_max}" if operator.version_max is not None else "none"
        yield f"state {operator.number}: {_size(operator.bytes)} in {operator.partitions} partitions, versions {versions}"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
