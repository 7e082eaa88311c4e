"""Find a job by its id, its name or a prefix of its id."""

import difflib

from holdfast.errors import Refused
from holdfast.model.codec import MalformedRecord, NewerSchema, decode
from holdfast.model.identifiers import JobId, is_valid_name
from holdfast.model.job import Spec
from holdfast.zk.records.batch_reads import read_in_groups, read_znodes
from holdfast.zk.records.job_reader import read_job
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.records.submission import decode_name_owner
from holdfast.zk.session.missing_znode import children_or_empty, none_if_missing
from holdfast.zk.session.reader import Reader, Znode

PREFIX_LENGTH_MIN = 2
"""Characters of an id prefix. All ids begin with the same character."""
LISTED_MAX = 10
SUGGESTED_MAX = 3


async def find_job(client: Reader, paths: Paths, text: str) -> StoredJob:
    """Return the job with this id, this name or this id prefix, in this order of precedence.

    A name refers to the live job that owns it, or else to the newest ended job of that name.
    Raises Refused if no job matches, or if several ids have this prefix.
    """
    ids = sorted(map(JobId, await children_or_empty(client, paths.jobs)))
    id = JobId(text) if text in ids else await _find_by_name(client, paths, ids, text) if is_valid_name(text) else None
    if id is None:
        id = _find_by_prefix(ids, text)
    job = await read_job(client, paths, id) if id is not None else None
    if job is None:
        suggestion = _suggest([name for name, _, _ in await _read_names(client, paths, ids)], text)
        raise Refused(f"there is no job '{text}'{suggestion} 'holdfast ls --all' lists all jobs")
    return job


async def _find_by_name(client: Reader, paths: Paths, ids: list[JobId], name: str) -> JobId | None:
    znode = await none_if_missing(client.get(paths.name(name)))
    if znode is not None and (owner := decode_name_owner(znode)) in ids:
        return owner
    named = [(created_ms, id) for other, created_ms, id in await _read_names(client, paths, ids) if other == name]
    return max(named)[1] if named else None


async def _read_names(client: Reader, paths: Paths, ids: list[JobId]) -> list[tuple[str, int, JobId]]:
    """Return (name, time of submission in milliseconds, id) of each job whose spec is readable."""
    specs = await read_in_groups(lambda group: read_znodes(client, [paths.job(id, "spec") for id in group]), ids)
    named = [(_decode_name(spec), spec.stat.created_ms, id) for id, spec in zip(ids, specs, strict=True) if spec is not None]
    return [(name, created_ms, id) for name, created_ms, id in named if name is not None]


def _suggest(names: list[str], text: str) -> str:
    """Return the question `did you mean`, or just a semicolon if no name is similar."""
    begin_alike = sorted({name for name in names if text and name.lower().startswith(text.lower())})
    similar = dict.fromkeys([*begin_alike, *difflib.get_close_matches(text, sorted(set(names)), SUGGESTED_MAX)])
    listed = " or ".join(f"'{name}'" for name in list(similar)[:SUGGESTED_MAX])
    return f". Did you mean {listed}?" if listed else ";"


def _decode_name(spec: Znode) -> str | None:
    try:
        return decode(Spec, spec.data, where="the spec").name
    except (MalformedRecord, NewerSchema):
        return None


def _find_by_prefix(ids: list[JobId], prefix: str) -> JobId | None:
    matches = [id for id in ids if id.startswith(prefix)] if len(prefix) >= PREFIX_LENGTH_MIN else []
    if len(matches) > 1:
        listed = ", ".join(matches[:LISTED_MAX]) + (", …" if len(matches) > LISTED_MAX else "")
        raise Refused(f"'{prefix}' is ambiguous: it matches {len(matches)} jobs ({listed}); type more characters of the id")
    return matches[0] if matches else None
