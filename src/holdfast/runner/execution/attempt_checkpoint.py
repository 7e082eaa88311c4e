"""Checkpoint of an attempt: claimed and verified before the driver starts, updated with its queries and its outcome."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from holdfast.checkpoint import KnownQueries
from holdfast.errors import Conflict, HoldfastError, Refused
from holdfast.log import Log
from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.codec import MalformedRecord, NewerSchema, decode, encode
from holdfast.model.identifiers import Attempt
from holdfast.model.job import Ending, Outcome, Report
from holdfast.model.unreported_outcome import find_unreported_outcome, first_unreported_attempt
from holdfast.model.versions import FIRST_VERSION
from holdfast.runner.execution.checkpoint_check import CheckpointDamaged, CheckpointVerification
from holdfast.runner.execution.claim_answers import ClaimAnswers
from holdfast.runner.execution.control_reader import ControlReader
from holdfast.runner.execution.job_phases import ReadPhase
from holdfast.runner.execution.location_ownership import LocationOwnership
from holdfast.runner.execution.started_queries import is_worth_saving, merge_started_queries
from holdfast.storage import CheckpointClaim, Claims, ForeignCheckpoint, checkpoint_location

SAVE_QUERIES_INTERVAL_S = 1.0
"""Interval at which the runner looks for queries that the driver has started."""

VERSION_FIELD = "version"
"""Field of an outcome in the root: version of the program. Earlier releases do not write it, and ignore it."""

LOCATION_OUTCOMES_S_MAX = 20.0
"""Time to record the end of the attempt at locations that the script named. One that hangs must not delay the next attempt."""


class EndedBeforeStart(Exception):
    """The attempt is over before its driver was started."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class AttemptCheckpoint:
    def __init__(
        self,
        root: str,
        storage: str,
        claim: CheckpointClaim,
        control: ControlReader,
        read_phase: ReadPhase,
        log: Log,
        *,
        version: int = FIRST_VERSION,
    ) -> None:
        """`root` is the root of the job's checkpoints as Spark spells it; `storage`, the root of the shared storage.

        `version` is the version of the program.
        """
        self._root = root
        self._storage = storage
        self._claim = claim
        self._version = version
        self._is_owned = False
        """True once the root certainly belongs to this job."""
        self._control = control
        self._log = log
        self._claims = Claims(checkpoint_location(root, storage), warn=lambda note: log.warning("claims", problem=note))
        self._ownership = LocationOwnership(root, storage, claim, read_phase, log)
        self._answers = ClaimAnswers(control.directory, control, self._ownership, log)
        self._saved_queries: KnownQueries | None = None
        """Queries as the checkpoint records them; None if it has no record."""
        self.repair_note = ""
        """Sentence about the repair that `verify` made, or about damage that a user trusts; empty if there was neither."""

    @property
    def note(self) -> str:
        """Sentence for operators about repairs and about locations without a claim; empty if there is nothing to report."""
        return "; ".join(filter(None, (self.repair_note, self._answers.note)))

    # Before the driver starts

    async def require_no_unreported_outcome(self, previous_report: Report | None) -> None:
        """Raise EndedBeforeStart if an earlier attempt ended and ZooKeeper may lack its outcome."""
        first = first_unreported_attempt(previous_report) if previous_report is not None else self._claim.attempt
        if first >= self._claim.attempt:
            return
        recent = await asyncio.to_thread(self._claims.read_outcomes_since, self._claim, first)
        decoded = {Attempt(attempt): self._decode_outcome(fields) for attempt, fields in recent.outcomes.items()}
        outcomes = {attempt: outcome for attempt, outcome in decoded.items() if outcome is not None}
        if (found := find_unreported_outcome(outcomes, recent.newest_claim)) is not None:
            self._is_owned = True
            reason = f"attempt {found.attempt} ended without reporting its outcome to ZooKeeper: {found.outcome.reason}"
            raise EndedBeforeStart(Outcome(found.outcome.ending, reason))

    async def claim(self) -> None:
        """Claim the checkpoint for this attempt. Raise EndedBeforeStart if another job or a later attempt has it."""
        try:
            await asyncio.to_thread(self._claims.claim, self._claim)
        except (ForeignCheckpoint, Conflict) as error:
            raise EndedBeforeStart(Outcome(Ending.CHECKPOINT_CONFLICT, str(error))) from error
        self._is_owned = True

    async def verify(self, previous_report: Report | None, trust: CheckpointTrust | None = None) -> None:
        """Verify the checkpoint and repair torn offsets. Raise EndedBeforeStart if the checkpoint cannot be trusted.

        Damage that `trust` covers does not prevent the start.
        """
        verification = CheckpointVerification(self._root, self._storage, self._claims, self._claim, self._ownership, self._log)
        try:
            self.repair_note = await asyncio.to_thread(verification.verify, previous_report, trust)
        except (ForeignCheckpoint, Conflict) as error:
            raise EndedBeforeStart(Outcome(Ending.CHECKPOINT_CONFLICT, str(error))) from error
        except Refused as error:
            findings = error.findings if isinstance(error, CheckpointDamaged) else ()
            raise EndedBeforeStart(Outcome(Ending.CHECKPOINT_DAMAGED, str(error), findings)) from error
        if self.repair_note:
            self._log.warning("checkpoint repaired or trusted", note=self.repair_note)

    # While the driver runs, and after it

    async def keep_saving_queries(self) -> None:
        """Save the driver's queries until cancelled: the next attempt needs them even if this runner is killed."""
        with suppress(OSError, HoldfastError):
            self._saved_queries = await asyncio.to_thread(self._claims.load_known_queries)
        while True:
            await asyncio.sleep(SAVE_QUERIES_INTERVAL_S)
            await self.save_queries()

    async def keep_answering_claim_requests(self) -> None:
        """Answer the driver's requests for checkpoint locations until cancelled."""
        await self._answers.keep_answering()

    async def save_queries(self, *, final: bool = False) -> None:
        """Save the driver's queries if there is a new one, or, with `final`, if anything has changed."""
        started = self._control.started_queries()
        if not started:
            return
        queries = merge_started_queries(self._saved_queries or KnownQueries(), started, self._control.query_batches())
        if queries == self._saved_queries or not (final or is_worth_saving(self._saved_queries, queries)):
            return
        try:
            await asyncio.to_thread(self._claims.save_known_queries, queries)
            self._saved_queries = queries
        except (OSError, HoldfastError) as error:
            self._log.warning("queries not saved in the checkpoint", problem=str(error))

    async def save_outcome(self, outcome: Outcome) -> None:
        """Save the outcome in owned locations, and in the root if it must prevent the next attempt.

        The root needs it in case the report to ZooKeeper fails. A location needs it in case another cluster continues there.
        A root that this attempt has not claimed may belong to another job, which would take the outcome for its own.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(LOCATION_OUTCOMES_S_MAX):
                await asyncio.to_thread(self._ownership.write_outcomes, json.loads(encode(outcome)))
        if not self._is_owned or outcome.ending in (Ending.LOST, Ending.STOPPED) or outcome.ending.concerns_checkpoint:
            return
        fields = {**json.loads(encode(outcome)), VERSION_FIELD: self._version}
        try:
            await asyncio.to_thread(self._claims.write_outcome, self._claim.attempt, fields)
        except (OSError, HoldfastError) as error:
            self._log.warning("outcome not saved in the checkpoint", problem=str(error))

    def _decode_outcome(self, fields: dict[str, Any]) -> Outcome | None:
        """Return the outcome; None for a malformed one, and for the failure of another version: this one has not failed."""
        with suppress(MalformedRecord, NewerSchema):
            outcome = decode(Outcome, json.dumps(fields).encode(), where="outcome")
            is_own = fields.get(VERSION_FIELD, self._version) == self._version
            return outcome if is_own or not outcome.ending.is_program_failure else None
        return None
