"""What follows from the findings before an attempt: go on, set torn offsets aside and go on, or park the job."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.checkpoint.file_sink import Sink
from holdfast.checkpoint.known_queries import KnownQuery
from holdfast.checkpoint.query import Query

FINDINGS_TOLD = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    problems: tuple[str, ...] = ()
    """Why the job has to be parked; nothing is set aside then."""
    aside: int | None = None
    """The batch whose torn offsets may be set aside."""
    remarks: tuple[str, ...] = ()


def judge(query: Query | None, known: KnownQuery | None, sink: Sink | None) -> Verdict:
    """About one query: its checkpoint (None if there is none), what was known of it, and its sink if that is one of files."""
    problems = [*_went_back(query, known)]
    if query is None:
        return Verdict(tuple(problems))
    harmful = [finding for finding in query.findings if finding.harms]
    problems += [str(finding) for finding in harmful if finding.torn_batch is None]
    problems += _sink_problems(query, sink)
    for finding in harmful:
        if finding.torn_batch is None:
            continue
        doubt = _doubt(finding.torn_batch, known, sink)
        if not problems and doubt is None:
            return Verdict(aside=finding.torn_batch, remarks=_remarks(query))
        problems.append(f"{finding}, and {doubt}" if doubt is not None else str(finding))
    return Verdict(tuple(problems), None, _remarks(query))


def _remarks(query: Query) -> tuple[str, ...]:
    return tuple(str(finding) for finding in query.findings if not finding.harms)


def _went_back(query: Query | None, known: KnownQuery | None) -> Iterator[str]:
    if known is None or known.batch_id is None:
        return
    if query is None or (query.planned is None and query.committed is None):
        yield f"there is none any more, and batch {known.batch_id} had been committed: it would start from scratch"
    elif query.committed is None or query.committed < known.batch_id:
        newest = "no commit" if query.committed is None else f"commits/{query.committed} as its newest commit"
        yield f"it has {newest}, and batch {known.batch_id} had been committed: batches would run a second time"


def _sink_problems(query: Query, sink: Sink | None) -> Iterator[str]:
    if sink is None:
        return
    yield from (f"its sink's {finding}" for finding in sink.findings)
    if sink.newest is None:
        return
    planned = -1 if query.planned is None else query.planned
    if sink.newest > planned:
        yield f"its sink has batch {sink.newest}, which was not planned yet: the next batches would be skipped as done"
    elif query.committed is not None and sink.newest < query.committed:
        yield f"its sink's newest batch is {sink.newest}, and batch {query.committed} was committed: what it wrote is gone"


def _doubt(batch: int, known: KnownQuery | None, sink: Sink | None) -> str | None:
    """Why nobody can be sure that nothing of the batch took effect; None if it is certain."""
    if known is None:
        return f"nobody knows what its sink is, so batch {batch} may have taken effect"
    if known.has_no_effect:
        return None
    if not known.writes_files:
        what = f"its sink ({known.format})" if known.format else "its sink"
        return f"{what} cannot tell whether batch {batch} took effect"
    if sink is None:
        return f"its sink cannot be looked at, so batch {batch} may have taken effect"
    if sink.newest is not None and sink.newest >= batch:
        return f"its sink has batch {batch} already"
    return None


def last_good(query: Query | None) -> str:
    """For the end of a sentence."""
    if query is None or query.committed is None:
        return "no batch is known to be good"
    return f"the last good batch is {query.committed}"


def told(findings: tuple[str, ...]) -> str:
    """As many as a sentence can hold."""
    rest = len(findings) - FINDINGS_TOLD
    return "; ".join(findings[:FINDINGS_TOLD]) + (f"; and {rest} more" if rest > 0 else "")
