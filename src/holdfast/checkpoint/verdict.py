"""Verdict on a checkpoint before an attempt: continue, set torn offsets aside, or park the job.

Only proof parks a job. A checkpoint that cannot be judged continues, with the reason in the log.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from holdfast.checkpoint.damage_rules import FOLDER_NOT_EMPTY
from holdfast.checkpoint.file_sink import FileSinkLog
from holdfast.checkpoint.finding import DAMAGED, REMARK, UNKNOWN, Finding
from holdfast.checkpoint.known_queries import KnownQuery
from holdfast.checkpoint.query import Query

FINDINGS_SHOWN = 3
_TEMPORARY = re.compile(r"(?:offsets|commits)/\.[^/]+\.tmp")
WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class CheckpointVerdict:
    problems: tuple[str, ...] = ()
    """Reasons to park the job. Then nothing is set aside."""
    batch_to_set_aside: int | None = None
    """Batch whose torn offsets may be set aside."""
    remarks: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Reasons why the checkpoint cannot be judged completely. The job continues."""
    leftovers: tuple[str, ...] = ()
    """Temporary files of a batch that was never planned, which may be moved aside."""
    names_other_place: bool = False
    """True if metadata names schema files elsewhere although the checkpoint has copies, so that it may be rewritten."""


def judge_findings(findings: Iterable[Finding]) -> str:
    """Return `damaged`, `unknown` or `whole`."""
    kinds = {finding.kind for finding in findings}
    return next((kind for kind in (DAMAGED, UNKNOWN) if kind in kinds), WHOLE)


def judge_query(query: Query | None, known: KnownQuery | None, sink: FileSinkLog | None) -> CheckpointVerdict:
    """Judge one query by its checkpoint (None if missing), the record beside it, and the log of a file sink."""
    problems = [*_lost_batches(query, known)]
    if query is None:
        return CheckpointVerdict(tuple(problems))
    harmful = [finding for finding in query.findings if finding.harms]
    leftovers = [finding for finding in harmful if finding.rule == FOLDER_NOT_EMPTY.name and is_temporary(finding.file)]
    harmful = [finding for finding in harmful if not finding.has_copy]
    problems += [str(finding) for finding in harmful if finding.torn_batch is None and finding not in leftovers]
    problems += _sink_problems(query, sink)
    doubts = _texts(query, UNKNOWN)
    if sink is not None:
        doubts += tuple(f"the sink's {finding}" for finding in sink.findings if finding.kind == UNKNOWN)
    for finding in harmful:
        if finding.torn_batch is None:
            continue
        doubt = _reason_to_doubt(finding.torn_batch, known, sink)
        if not problems and doubt is None:
            remarks = _texts(query, REMARK)
            return CheckpointVerdict((), finding.torn_batch, remarks, doubts, names_other_place=_names_other_place(query))
        problems.append(f"{finding}, and {doubt}" if doubt is not None else str(finding))
    movable = () if problems else tuple(finding.file for finding in leftovers)
    rewrites = not problems and _names_other_place(query)
    return CheckpointVerdict(tuple(problems), None, _texts(query, REMARK), doubts, movable, rewrites)


def _names_other_place(query: Query) -> bool:
    return any(finding.has_copy for finding in query.findings)


def is_temporary(path: str) -> bool:
    """Return True for a temporary file that Spark has not renamed yet. No reader uses it."""
    return _TEMPORARY.fullmatch(path) is not None


def _texts(query: Query, kind: str) -> tuple[str, ...]:
    return tuple(str(finding) for finding in query.findings if finding.kind == kind)


def _lost_batches(query: Query | None, known: KnownQuery | None) -> Iterator[str]:
    if known is None or known.batch_id is None:
        return
    if query is None or (query.planned is None and query.committed is None):
        yield f"it no longer exists, but batch {known.batch_id} was committed: the query would start from scratch"
    elif query.committed is None or query.committed < known.batch_id:
        newest = "it has no commit" if query.committed is None else f"its newest commit is commits/{query.committed}"
        yield f"{newest}, but batch {known.batch_id} was committed: batches would run twice"


def _sink_problems(query: Query, sink: FileSinkLog | None) -> Iterator[str]:
    if sink is None:
        return
    yield from (f"the sink's {finding}" for finding in sink.findings if finding.harms)
    if sink.newest is None:
        return
    planned = -1 if query.planned is None else query.planned
    if sink.newest > planned:
        yield f"the sink has batch {sink.newest}, which was not planned yet: Spark would skip the next batches as done"
    elif query.committed is not None and sink.newest < query.committed:
        problem = f"the sink's newest batch is {sink.newest}, but batch {query.committed} was committed"
        yield f"{problem}: the output of later batches is missing"


def _reason_to_doubt(batch: int, known: KnownQuery | None, sink: FileSinkLog | None) -> str | None:
    """Return the reason why the batch may have reached the sink, or None if it certainly has not."""
    if known is None:
        return f"the sink is unknown, so batch {batch} may have been written"
    if known.has_transient_sink:
        return None
    if not known.writes_files:
        sink_name = f"the sink ({known.format})" if known.format else "the sink"
        return f"{sink_name} cannot show whether batch {batch} was written"
    if sink is None:
        return f"the sink cannot be read, so batch {batch} may have been written"
    if sink.newest is not None and sink.newest >= batch:
        return f"the sink already has batch {batch}"
    return None


def problem_key(problem: str) -> str:
    """Return the part of a problem that names the damage. The rest is about the sink, and can change between attempts."""
    return problem.partition(", and the sink")[0]


def describe_last_commit(query: Query | None) -> str:
    """Return a clause about the newest committed batch."""
    if query is None or query.committed is None:
        return "no committed batch is known"
    return f"the last committed batch is {query.committed}"


def join_findings(findings: tuple[str, ...]) -> str:
    """Join the first findings into one sentence."""
    rest = len(findings) - FINDINGS_SHOWN
    return "; ".join(findings[:FINDINGS_SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
