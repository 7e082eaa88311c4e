"""Outcomes of earlier attempts in the checkpoint that ZooKeeper may lack. A new attempt reads them before anything else."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from holdfast.errors import Conflict, Refused
from holdfast.log import Log
from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.codec import MalformedRecord, NewerSchema, decode, encode
from holdfast.model.identifiers import Attempt
from holdfast.model.job import Ending, Outcome, Report, Spec
from holdfast.model.unreported_outcome import find_unreported_outcome, first_unreported_attempt
from holdfast.runner.execution.checkpoint_check import CheckpointDamaged, require_claimed_checkpoint
from holdfast.storage import CheckpointClaim, Claims, checkpoint_location

VERSION_FIELD = "version"
"""Field of an outcome in the root: version of the program. Earlier releases do not write it, and ignore it."""
SCHEDULED_FIELD = "scheduled"
"""Field of an outcome in the root: true for a run of a schedule, whose end does not end the job. Written like the version."""


class EndedBeforeStart(Exception):
    """The attempt is over before its driver was started."""

    def __init__(self, outcome: Outcome, *, is_earlier_outcome: bool = False) -> None:
        """`is_earlier_outcome` is True if an earlier attempt has left this outcome in the checkpoint."""
        super().__init__(outcome.reason)
        self.outcome = outcome
        self.is_earlier_outcome = is_earlier_outcome


class EarlierOutcomes:
    def __init__(self, claim: CheckpointClaim, previous_report: Report | None, spec: Spec, storage: str, log: Log) -> None:
        """`claim` is that of the new attempt; `storage`, the root of the shared storage."""
        self._claim = claim
        self._storage = storage
        self._log = log
        self._is_scheduled = spec.schedule is not None
        self._first = (
            first_unreported_attempt(previous_report, is_scheduled=self._is_scheduled)
            if previous_report is not None
            else Attempt(claim.attempt)
        )
        self.claimed_root = previous_report.checkpoint if previous_report is not None else ""
        """Root that an earlier attempt has certainly claimed; empty if none is known."""
        self._previous_report = previous_report
        self._read_roots: set[str] = set()

    @property
    def may_exist(self) -> bool:
        return self._first < self._claim.attempt

    def require_unfinished(self) -> None:
        """Raise EndedBeforeStart if the previous report says that the job has finished. It came after the leader's decision."""
        previous = self._previous_report.outcome if self._previous_report is not None else None
        if previous is not None and previous.ending is Ending.FINISHED and not self._is_scheduled:
            raise EndedBeforeStart(previous, is_earlier_outcome=True)

    async def require_none(self, root: str, *, version: int, trust: CheckpointTrust | None) -> None:
        """Raise EndedBeforeStart if an outcome in this root must be reported, or if a claimed checkpoint is missing.

        Raises Refused for an invalid location, and Unavailable. A missing checkpoint that `trust` covers is none. Each root is
        read once.
        """
        if root in self._read_roots:
            return
        claims = Claims(checkpoint_location(root, self._storage), warn=lambda note: self._log.warning("claims", problem=note))
        try:
            if root == self.claimed_root:
                await asyncio.to_thread(
                    require_claimed_checkpoint,
                    root,
                    self._storage,
                    claims,
                    self._claim,
                    self._previous_report,
                    trust,
                    self._log,
                )
            if self.may_exist:
                await self._require_no_outcome(claims, version)
            self._read_roots.add(root)
        except (Refused, Conflict) as error:
            findings = error.findings if isinstance(error, CheckpointDamaged) else ()
            raise EndedBeforeStart(Outcome(Ending.CHECKPOINT_DAMAGED, str(error), findings)) from error

    async def _require_no_outcome(self, claims: Claims, version: int) -> None:
        recent = await asyncio.to_thread(claims.read_outcomes_since, self._claim, self._first)
        decoded = {Attempt(attempt): self._decode_outcome(fields, version) for attempt, fields in recent.outcomes.items()}
        outcomes = {attempt: outcome for attempt, outcome in decoded.items() if outcome is not None}
        if (found := find_unreported_outcome(outcomes, recent.newest_claim)) is not None:
            reason = f"attempt {found.attempt} ended without reporting its outcome to ZooKeeper: {found.outcome.reason}"
            raise EndedBeforeStart(Outcome(found.outcome.ending, reason), is_earlier_outcome=True)

    def encode_outcome(self, outcome: Outcome, version: int) -> dict[str, Any]:
        """Return the fields of an outcome of the new attempt in the root. `version` is the version of the program."""
        return {**json.loads(encode(outcome)), VERSION_FIELD: version, SCHEDULED_FIELD: self._is_scheduled}

    def _decode_outcome(self, fields: dict[str, Any], version: int) -> Outcome | None:
        """Return the outcome; None for a malformed one, and for one that says nothing about this version of the program.

        Another version may have failed where this one does not. The end of a run says nothing about a job without a schedule,
        and the end of such a job nothing about a run.
        """
        with suppress(MalformedRecord, NewerSchema):
            outcome = decode(Outcome, json.dumps(fields).encode(), where="outcome")
            is_own = fields.get(VERSION_FIELD, version) == version
            is_same_kind = fields.get(SCHEDULED_FIELD, self._is_scheduled) == self._is_scheduled
            counts = is_same_kind if outcome.ending is Ending.FINISHED else is_own or not outcome.ending.is_program_failure
            return outcome if counts else None
        return None
