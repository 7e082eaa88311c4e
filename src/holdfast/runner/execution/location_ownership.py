"""Ownership of checkpoint locations that a script names: one job at a time may use a location. Blocks.

Another job's claim prevents the use of a location until that job has ended. The state in ZooKeeper shows whether a job of
this cluster has ended. For a job of another cluster, and for a job whose records are deleted, the outcome record beside the
claim shows it.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast.errors import HoldfastError, Unavailable
from holdfast.log import Log
from holdfast.model.phase import Phase
from holdfast.runner.job_phases import ReadPhase
from holdfast.storage import AlreadyClaimed, CheckpointClaim, Claims, ForeignCheckpoint, LocationClaims, LocationOwner
from holdfast.storage.location import Location, checkpoint_location, enclosing_folders, parse_location

CONCURRENT_CLAIMS_MAX = 5
CONCURRENT_CLAIM_DELAY_S = 0.2
OUTCOME_WRITERS = 4


class OwnerStateUnknown(Unavailable):
    """Another job has claimed the location, and ZooKeeper cannot be asked whether that job has ended."""


class LocationOwnership:
    """Locations that one attempt owns outside of the root of its job."""

    def __init__(self, root: str, storage: str, claim: CheckpointClaim, read_phase: ReadPhase, log: Log) -> None:
        """`root` is the root of the job's checkpoints as Spark spells it; `storage`, the root of the shared storage."""
        self._root = parse_location(checkpoint_location(root, storage))
        self._storage = storage
        self._claim = claim
        self._read_phase = read_phase
        self._log = log
        self._owned: dict[str, LocationClaims] = {}

    def claim(self, location: str) -> None:
        """Claim a location, as Spark spells it, for this attempt.

        Raises ForeignCheckpoint if another job owns it, OwnerStateUnknown if another job may own it, Conflict if a later
        attempt of this job does, and Refused or Unavailable if this node cannot access it.
        """
        place = checkpoint_location(location, self._storage)
        parsed = parse_location(place)
        if place in self._owned or _contains(self._root, parsed):
            return
        self._require_ended_owner_of_enclosing_root(parsed)
        claims = LocationClaims(place, warn=self._warn)
        owner = self._try_claim(claims, None)
        if owner is not None:
            self._require_ended(owner, parsed)
            if (other := self._try_claim(claims, owner.claim)) is not None:
                self._require_ended(other, parsed)
                raise AlreadyClaimed(f"cannot claim {parsed.display_name}: its owner is changing")
            self._log.info("checkpoint taken over", location=parsed.display_name, former_owner=owner.claim.job)
        self._owned[place] = claims

    def write_outcomes(self, outcome: dict[str, Any]) -> None:
        """Record in each owned location that the attempt has ended. Failures are logged."""
        with ThreadPoolExecutor(OUTCOME_WRITERS) as executor:
            list(executor.map(lambda claims: self._write_outcome(claims, outcome), list(self._owned.values())))

    def _write_outcome(self, claims: LocationClaims, outcome: dict[str, Any]) -> None:
        try:
            claims.write_outcome(self._claim, outcome)
        except (OSError, HoldfastError) as error:
            self._warn(f"outcome not saved at a checkpoint location: {error}")

    def _try_claim(self, claims: LocationClaims, ended_owner: CheckpointClaim | None) -> LocationOwner | None:
        for attempts_left in reversed(range(CONCURRENT_CLAIMS_MAX)):
            try:
                return claims.claim(self._claim, ended_owner=ended_owner)
            except AlreadyClaimed:
                # Two processes that claim a location at the same time both withdraw.
                if not attempts_left:
                    raise
                time.sleep(CONCURRENT_CLAIM_DELAY_S)
        raise AssertionError("unreachable")

    def _require_ended_owner_of_enclosing_root(self, location: Location) -> None:
        """Raise ForeignCheckpoint if the location is in the checkpoint root of another job that has not ended."""
        for folder in enclosing_folders(location):
            owner = LocationClaims(str(folder), warn=self._warn).read_owner()
            if owner is None or owner.claim.is_same_job(self._claim):
                continue
            if folder.name == owner.claim.job or self._has_query_record(folder):
                self._require_ended(owner, location)

    def _has_query_record(self, folder: Location) -> bool:
        """Return True for the root of a job: only a root has a record of the job's queries."""
        return Claims(str(folder), warn=self._warn).load_known_queries() is not None

    def _require_ended(self, owner: LocationOwner, location: Location) -> None:
        """Raise ForeignCheckpoint if the owner may use the location again, and OwnerStateUnknown if that is not known."""
        other = owner.claim
        try:
            phase = self._read_phase(other.job) if other.cluster == self._claim.cluster else None
        except Unavailable as error:
            raise OwnerStateUnknown(
                f"the checkpoint {location.display_name} belongs to the job {other.job}: {error}"
            ) from error
        if phase.final if phase is not None else owner.ended:
            return
        raise ForeignCheckpoint(_describe_owner(owner, phase, location, self._claim))

    def _warn(self, sentence: str) -> None:
        self._log.warning("claims", problem=sentence)


def _describe_owner(owner: LocationOwner, phase: Phase | None, location: Location, claim: CheckpointClaim) -> str:
    other = owner.claim
    resume = f"then run 'holdfast resume {claim.job}'"
    if phase is not None:
        return (
            f"the checkpoint {location.display_name} belongs to the job {other.job}, which is {phase}: choose another "
            f"checkpointLocation, or run 'holdfast cancel {other.job}', {resume}"
        )
    cluster = "" if other.cluster == claim.cluster else f" of the cluster '{other.cluster}'"
    return (
        f"the checkpoint {location.display_name} belongs to the job {other.job}{cluster}, and nothing shows that its "
        f"attempt {other.attempt} has ended: if it has, remove {owner.file}, {resume}"
    )


def _contains(root: Location, location: Location) -> bool:
    same = (root.scheme, root.authority) == (location.scheme, location.authority)
    return same and (location.path == root.path or location.path.startswith(f"{root.path}/"))
