"""Checkpoint of an attempt: claimed and verified before the driver starts, updated with its queries and its outcome."""

import asyncio
import json
from contextlib import suppress

from holdfast.checkpoint import KnownQueries
from holdfast.errors import Conflict, HoldfastError, Refused
from holdfast.log import Log
from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.codec import encode
from holdfast.model.job import Ending, Outcome, Report
from holdfast.model.versions import FIRST_VERSION
from holdfast.runner.execution.checkpoint_check import CheckpointDamaged, CheckpointVerification
from holdfast.runner.execution.claim_answers import ClaimAnswers
from holdfast.runner.execution.control_reader import ControlReader
from holdfast.runner.execution.earlier_outcomes import EarlierOutcomes, EndedBeforeStart
from holdfast.runner.execution.location_ownership import LocationOwnership
from holdfast.runner.execution.started_queries import is_worth_saving, merge_started_queries
from holdfast.runner.job_phases import ReadPhase
from holdfast.storage import CheckpointClaim, Claims, ForeignCheckpoint, checkpoint_location

SAVE_QUERIES_INTERVAL_S = 1.0
"""Interval at which the runner looks for queries that the driver has started."""

LOCATION_OUTCOMES_S_MAX = 20.0
"""Time to record the end of the attempt at locations that the script named. One that hangs must not delay the next attempt."""


class AttemptCheckpoint:
    def __init__(
        self,
        root: str,
        storage: str,
        claim: CheckpointClaim,
        earlier: EarlierOutcomes,
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
        self._earlier = earlier
        self._version = version
        self._control = control
        self._log = log
        self._claims = Claims(checkpoint_location(root, storage), warn=lambda note: log.warning("claims", problem=note))
        self._ownership = LocationOwnership(root, storage, claim, read_phase, log)
        self._answers = ClaimAnswers(control.directory, control, self._ownership, log)
        self.claimed_root = ""
        """Root of the checkpoints once this attempt has claimed it; empty before."""
        self._saved_queries: KnownQueries | None = None
        """Queries as the checkpoint records them; None if it has no record."""
        self.repair_note = ""
        """Sentence about the repair that `verify` made, or about damage that a user trusts; empty if there was neither."""

    @property
    def note(self) -> str:
        """Sentence for operators about repairs and about locations without a claim; empty if there is nothing to report."""
        return "; ".join(filter(None, (self.repair_note, self._answers.note)))

    # Before the driver starts

    async def require_no_unreported_outcome(self, trust: CheckpointTrust | None) -> None:
        """Raise EndedBeforeStart if an earlier attempt ended and ZooKeeper may lack its outcome, or if the root is missing."""
        await self._earlier.require_none(self._root, version=self._version, trust=trust)

    async def claim(self) -> None:
        """Claim the checkpoint for this attempt. Raise EndedBeforeStart if another job or a later attempt has it."""
        try:
            await asyncio.to_thread(self._claims.claim, self._claim)
        except (ForeignCheckpoint, Conflict) as error:
            raise EndedBeforeStart(Outcome(Ending.CHECKPOINT_CONFLICT, str(error))) from error
        self.claimed_root = self._root

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
        if not self.claimed_root or outcome.ending in (Ending.LOST, Ending.STOPPED) or outcome.ending.concerns_checkpoint:
            return
        fields = self._earlier.encode_outcome(outcome, self._version)
        try:
            await asyncio.to_thread(self._claims.write_outcome, self._claim.attempt, fields)
        except (OSError, HoldfastError) as error:
            self._log.warning("outcome not saved in the checkpoint", problem=str(error))
