"""Verification of a job's checkpoints before each attempt: a driver never starts from a checkpoint that cannot be trusted.

Blocks. Only reads, with three exceptions. An incomplete offsets file is moved aside if its batch certainly had no effect.
Temporary files in a new checkpoint, with which Spark refuses to start, are moved aside, too. Metadata of a copied checkpoint
that names schema files of the original is rewritten to name the copies.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.checkpoint import CheckpointVerdict, FileSinkLog, KnownQueries, KnownQuery, Query, judge_query
from holdfast.checkpoint.verdict import describe_last_commit, join_findings, problem_key
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.log import Log
from holdfast.model.checkpoint_trust import CheckpointTrust, finding_id, record_findings
from holdfast.model.job import Report
from holdfast.runner.execution.location_ownership import LocationOwnership, OwnerStateUnknown
from holdfast.storage import CheckpointClaim, Checkpoints, Claims, ForeignCheckpoint, checkpoint_location, examine_file_sink
from holdfast.storage.location import parse_location

MISSING_AFTER_CLAIM = "it no longer exists, but an earlier attempt has used it: mount it on this node"


class CheckpointDamaged(Refused):
    """The checkpoint cannot be trusted, and an operator must decide. The message has the findings and the choices."""

    def __init__(self, message: str, findings: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.findings = findings
        """Ids of all findings, for an operator who trusts the checkpoint in spite of them."""


@dataclass(frozen=True, slots=True)
class _Damage:
    """Problems of one query's checkpoint."""

    location: str
    query: Query | None
    problems: tuple[str, ...]

    def without(self, trust: CheckpointTrust | None) -> "_Damage":
        """Return the problems that the user did not trust."""
        pairs = zip(self.problems, self.ids(), strict=True)
        return replace(self, problems=tuple(problem for problem, id in pairs if trust is None or not trust.covers(id)))

    def ids(self) -> list[str]:
        return [finding_id(self.location, problem_key(problem)) for problem in self.problems]

    def __str__(self) -> str:
        findings, last = join_findings(self.problems), describe_last_commit(self.query)
        return f"the checkpoint {self.location} cannot be trusted: {findings}; {last}"


@dataclass(frozen=True, slots=True)
class _QueryCheckpoint:
    """Checkpoint of one query, which may be missing."""

    location: str
    """Path or URI as Spark spells it."""
    checkpoints: Checkpoints
    query: Query | None


def require_claimed_checkpoint(
    root: str,
    storage: str,
    claims: Claims,
    claim: CheckpointClaim,
    previous_report: Report | None,
    trust: CheckpointTrust | None,
    log: Log,
) -> None:
    """Raise CheckpointDamaged if a root that an earlier attempt has claimed does not exist here, unless `trust` covers that.

    The file system of a directory may not be mounted on this node; other locations cannot look empty. Call this before the
    claim, which would create the directory.
    """
    if not parse_location(checkpoint_location(root, storage)).is_directory:
        return
    if claims.list_attempts() or any(True for _ in Checkpoints(checkpoint_location(root, storage)).examine_queries()):
        return
    batch = _reported_batch(previous_report)
    problem = _missing_after_batch(batch) if batch is not None else MISSING_AFTER_CLAIM
    _accept([_Damage(root.rstrip("/") or root, None, (problem,))], trust, claim.job, log)


class CheckpointVerification:
    def __init__(
        self, root: str, storage: str, claims: Claims, claim: CheckpointClaim, ownership: LocationOwnership, log: Log
    ) -> None:
        self._root = root.rstrip("/") or root
        """Root of the job's checkpoints as Spark spells it."""
        self._storage = storage
        self._claims = claims
        self._claim = claim
        self._ownership = ownership
        self._log = log

    def verify(self, previous_report: Report | None, trust: CheckpointTrust | None = None) -> str:
        """Verify all checkpoints of the job. Return a sentence about repairs and trusted damage, or an empty string.

        Raises CheckpointDamaged unless `trust` covers every finding, Unavailable, and the errors of a claim.
        """
        recorded = self._claims.load_known_queries()
        reported_batch = _reported_batch(previous_report)
        known = _with_reported_batch(recorded or KnownQueries(), reported_batch)
        places = list(self._query_checkpoints(known))
        damages = []
        if reported_batch is not None and recorded is None and not places:
            damages.append(_Damage(self._root, None, (_missing_after_batch(reported_batch),)))
        verdicts = [(place, self._judge(place, known.find(place.location))) for place in places]
        for place, verdict in verdicts:
            for remark in verdict.remarks:
                self._log.warning("checkpoint", location=place.location, problem=remark)
            for doubt in verdict.doubts:
                self._log.warning("checkpoint cannot be judged", location=place.location, reason=doubt)
            if verdict.problems:
                damages.append(_Damage(place.location, place.query, verdict.problems))
        notes = [_accept(damages, trust, self._claim.job, self._log)] if damages else []
        notes += [text for place, verdict in verdicts for text in self._repair(place, verdict)]
        self._save_positions(recorded, places, accepted={damage.location for damage in damages})
        return "; ".join(notes)

    # Reading

    def _query_checkpoints(self, known: KnownQueries) -> Iterator[_QueryCheckpoint]:
        """Yield the checkpoints below the root, then the known ones elsewhere, including those that are missing."""
        root = Checkpoints(checkpoint_location(self._root, self._storage))
        found = {f"{self._root}/{query.place}".rstrip("/"): query for query in root.examine_queries()}
        for location, query in found.items():
            yield _QueryCheckpoint(location, root, query)
        for each in known.queries:
            if each.location and each.location not in found and (place := self._outside_root(each)) is not None:
                yield place

    def _outside_root(self, known: KnownQuery) -> _QueryCheckpoint | None:
        """Return a checkpoint outside of the root, claimed for this job; None if this node cannot access it."""
        try:
            place = checkpoint_location(known.location, self._storage)
            checkpoints = Checkpoints(place)
            query = next((query for query in checkpoints.examine_queries() if not query.place), None)
            if query is not None and not known.location.startswith(f"{self._root}/"):
                self._ownership.claim(known.location)
        except (ForeignCheckpoint, OwnerStateUnknown):
            raise
        except (Refused, Unavailable) as error:
            self._log.warning("checkpoint not verified", location=known.location, problem=str(error))
            return None
        return _QueryCheckpoint(known.location, checkpoints, query)

    def _judge(self, place: _QueryCheckpoint, known: KnownQuery | None) -> CheckpointVerdict:
        return judge_query(place.query, known, self._sink(known))

    def _sink(self, known: KnownQuery | None) -> FileSinkLog | None:
        if known is None or not known.writes_files:
            return None
        try:
            return examine_file_sink(checkpoint_location(known.path, self._storage))
        except HoldfastError as error:
            self._log.warning("sink not verified", location=known.path, problem=str(error))
            return None

    # Repair and record

    def _repair(self, place: _QueryCheckpoint, verdict: CheckpointVerdict) -> Iterator[str]:
        """Move files aside that prevent a start and had no effect, and rewrite paths. Yield a sentence about each repair."""
        if verdict.batch_to_set_aside is not None:
            yield self._set_aside(place, verdict.batch_to_set_aside)
        if verdict.leftovers:
            assert place.query is not None
            folder = place.checkpoints.set_leftovers_aside(place.query, verdict.leftovers, self._claim.attempt)
            yield f"temporary files of {place.location}, left from a batch that was never planned, were moved to {folder}"
        if verdict.names_other_place:
            assert place.query is not None
            place.checkpoints.adopt_schema_files(place.query)
            yield f"metadata of the state in {place.location} named schema files elsewhere and now names the copies beside it"

    def _set_aside(self, place: _QueryCheckpoint, batch: int) -> str:
        assert place.query is not None
        aside = place.checkpoints.set_aside(place.query, batch, self._claim.attempt)
        continuation = f"the query continues after batch {batch - 1}" if batch > 0 else "the query starts with batch 0 again"
        return (
            f"offsets/{batch} of {place.location} was incomplete and was moved to {aside}; "
            f"that batch had no effect, and {continuation}"
        )

    def _save_positions(self, recorded: KnownQueries | None, places: list[_QueryCheckpoint], *, accepted: set[str]) -> None:
        """Record the committed batches. The old record of the `accepted` locations, whose damage a user trusts, is outdated."""
        known = (recorded or KnownQueries()).without_batches(accepted)
        for place in places:
            if place.query is not None and place.query.committed is not None:
                query = known.find(place.location) or KnownQuery(place.location)
                known = known.with_query(replace(query, batch_id=place.query.committed))
        if known != recorded:
            self._claims.save_known_queries(known)


def _accept(damages: list[_Damage], trust: CheckpointTrust | None, job: str, log: Log) -> str:
    """Log all findings, and return a sentence if the user trusts all of them. Raises CheckpointDamaged otherwise."""
    for damage in damages:
        for problem in damage.problems:
            log.warning("checkpoint damaged", location=damage.location, problem=problem)
    untrusted = [rest for damage in damages if (rest := damage.without(trust)).problems]
    if trust is None or untrusted:
        ids = record_findings([id for damage in damages for id in damage.ids()])
        raise CheckpointDamaged(_damage_message(untrusted, job), ids)
    return str(trust)


def _damage_message(damages: list[_Damage], job: str) -> str:
    return (
        f"{'. Also '.join(map(str, damages))}. Repair it or restore a copy and run 'holdfast resume {job}', run "
        f"'holdfast resume {job} --trust-checkpoint --reason TEXT' if you have looked and it may be used as it is, or run "
        f"'holdfast cancel {job}'"
    )


def _reported_batch(report: Report | None) -> int | None:
    return report.progress.batch_id if report is not None and report.progress is not None else None


def _missing_after_batch(reported_batch: int) -> str:
    return f"it no longer exists, but batch {reported_batch} was committed: the query would start from scratch"


def _with_reported_batch(known: KnownQueries, reported_batch: int | None) -> KnownQueries:
    """Add the reported batch. The report does not name a query, so that works only for a job with one query."""
    if reported_batch is None or len(known.queries) != 1 or not known.queries[0].location:
        return known
    return known.with_query(replace(known.queries[0], batch_id=reported_batch))
