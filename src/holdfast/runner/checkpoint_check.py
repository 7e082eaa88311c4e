"""Is the checkpoint what the last attempt left? Asked before each attempt: what cannot be trusted is not run from.

Blocks, and reads only. The one thing that it changes: torn offsets are moved aside, where their batch surely had no effect.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.checkpoint import Known, KnownQuery, Query, Sink, Verdict, judge
from holdfast.checkpoint.verdict import last_good, told
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.log import Log
from holdfast.model.job import Report
from holdfast.storage import Checkpoints, Claim, Claims, ForeignCheckpoint, in_storage, sink_at


class Damaged(Refused):
    """A person has to look at the checkpoint. The sentence has the exact finding and the choices."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a query's checkpoint is, or should be."""

    location: str
    """As Spark spells it."""
    checkpoints: Checkpoints
    query: Query | None


class Verification:
    def __init__(self, root: str, storage: str, claims: Claims, claim: Claim, log: Log) -> None:
        self._root = root.rstrip("/") or root
        """Of the job's checkpoints, as Spark spells it."""
        self._storage = storage
        self._claims = claims
        self._claim = claim
        self._log = log

    def verify(self, before: Report | None) -> str:
        """What people have to know; empty if all is as it should be. Raises Damaged, Unavailable, and what a claim raises."""
        noted = self._claims.queries()
        reached = before.progress.batch_id if before is not None and before.progress is not None else None
        known = _with_what_was_reported(noted or Known(), reached)
        places = list(self._places(known))
        if reached is not None and noted is None and not places:
            raise Damaged(self._sentence(self._root, None, (_vanished(reached),)))
        verdicts = [(place, self._judged(place, known.at(place.location))) for place in places]
        for place, verdict in verdicts:
            for remark in verdict.remarks:
                self._log.warning("checkpoint", location=place.location, problem=remark)
            if verdict.problems:
                raise Damaged(self._sentence(place.location, place.query, verdict.problems))
        note = "; ".join(self._set_aside(place, verdict.aside) for place, verdict in verdicts if verdict.aside is not None)
        self._remember(noted, places)
        return note

    # Looking

    def _places(self, known: Known) -> Iterator[_Place]:
        """What is below the root, and then what is known to be elsewhere, or to have been."""
        root = Checkpoints(in_storage(self._root, self._storage))
        found = {f"{self._root}/{query.place}".rstrip("/"): query for query in root.queries()}
        for location, query in found.items():
            yield _Place(location, root, query)
        for each in known.queries:
            if each.location and each.location not in found and (place := self._elsewhere(each)) is not None:
                yield place

    def _elsewhere(self, known: KnownQuery) -> _Place | None:
        """None if it cannot be reached from here: then it cannot be verified."""
        try:
            place = in_storage(known.location, self._storage)
            checkpoints = Checkpoints(place)
            query = next((query for query in checkpoints.queries() if not query.place), None)
            if query is not None and not known.location.startswith(f"{self._root}/"):
                Claims(place).claim(self._claim)
        except ForeignCheckpoint:
            raise
        except (Refused, Unavailable) as error:
            self._log.warning("checkpoint not verified", location=known.location, problem=str(error))
            return None
        return _Place(known.location, checkpoints, query)

    def _judged(self, place: _Place, known: KnownQuery | None) -> Verdict:
        return judge(place.query, known, self._sink(known))

    def _sink(self, known: KnownQuery | None) -> Sink | None:
        if known is None or not known.writes_files:
            return None
        try:
            return sink_at(in_storage(known.path, self._storage))
        except HoldfastError as error:
            self._log.warning("sink not verified", location=known.path, problem=str(error))
            return None

    # What follows

    def _set_aside(self, place: _Place, batch: int) -> str:
        assert place.query is not None
        aside = place.checkpoints.set_aside(place.query, batch, self._claim.attempt)
        goes_on = f"it goes on after batch {batch - 1}" if batch > 0 else "it begins with batch 0 again"
        return (
            f"offsets/{batch} of {place.location} was torn and is now {aside}; nothing of that batch took effect, and {goes_on}"
        )

    def _remember(self, noted: Known | None, places: list[_Place]) -> None:
        known = noted or Known()
        for place in places:
            if place.query is not None and place.query.committed is not None:
                query = known.at(place.location) or KnownQuery(place.location)
                known = known.with_another(replace(query, batch_id=place.query.committed))
        if known != noted:
            self._claims.leave_queries(known)

    def _sentence(self, location: str, query: Query | None, problems: tuple[str, ...]) -> str:
        job = self._claim.job
        return (
            f"its checkpoint {location} cannot be trusted: {told(problems)}; {last_good(query)}. "
            f"Mend it or put a copy back and say 'holdfast resume {job}', or 'holdfast cancel {job}'"
        )


def _vanished(reached: int) -> str:
    return f"there is none any more, and batch {reached} had been committed: it would start from scratch"


def _with_what_was_reported(known: Known, reached: int | None) -> Known:
    """The report tells of one batch, without a query. With one query it is clear whose it was."""
    if reached is None or len(known.queries) != 1 or not known.queries[0].location:
        return known
    return known.with_another(replace(known.queries[0], batch_id=reached))
