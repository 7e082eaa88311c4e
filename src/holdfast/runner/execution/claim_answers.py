"""Answers to a driver that asks whether a query may use a checkpoint location."""

import asyncio
import time
from pathlib import Path

from holdfast.driver_protocol.control_files import CLAIM_ANSWERS_FILE, write_control_file
from holdfast.driver_protocol.location_claim import ANSWERS_MAX, ClaimAnswer, ClaimRequest, claim_answers_to_json
from holdfast.errors import Conflict, HoldfastError, Unavailable
from holdfast.log import Log
from holdfast.runner.execution.control_reader import ControlReader
from holdfast.runner.execution.location_ownership import LocationOwnership, OwnerStateUnknown
from holdfast.storage import ForeignCheckpoint

POLL_S = 0.2
RETRY_S = 1.0
RETRY_S_MAX = 5.0
"""Time to retry while a location is unavailable. Then the query starts without a claim: Spark may reach it by other means."""
NOTE_MAX = 500


class ClaimAnswers:
    """Writer of the answers in one attempt's control directory."""

    def __init__(
        self,
        directory: Path,
        control: ControlReader,
        ownership: LocationOwnership,
        log: Log,
        *,
        retry_s_max: float = RETRY_S_MAX,
    ) -> None:
        self._directory = directory
        self._control = control
        self._ownership = ownership
        self._log = log
        self._retry_s_max = retry_s_max
        self._answers: dict[int, ClaimAnswer] = {}
        self._notes: dict[str, str] = {}

    @property
    def note(self) -> str:
        """Sentence about locations without a claim; empty if there are none."""
        return "; ".join(self._notes.values())[:NOTE_MAX]

    async def keep_answering(self) -> None:
        """Answer requests until cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            await self.answer_requests()

    async def answer_requests(self) -> None:
        """Answer the requests that have no answer yet."""
        for request in self._control.claim_requests():
            if request.number in self._answers:
                continue
            answer = await asyncio.to_thread(self._decide, request)
            if answer is not None and self._write({**self._answers, request.number: answer}):
                self._answers[request.number] = answer

    def _write(self, answers: dict[int, ClaimAnswer]) -> bool:
        newest = [answers[number] for number in sorted(answers)[-ANSWERS_MAX:]]
        return write_control_file(str(self._directory), CLAIM_ANSWERS_FILE, claim_answers_to_json(newest))

    def _decide(self, request: ClaimRequest) -> ClaimAnswer | None:
        """Return the answer, or None to decide later: without ZooKeeper it is unknown whether the owner has ended."""
        give_up_at = time.monotonic() + self._retry_s_max
        while True:
            try:
                self._ownership.claim(request.location)
                self._notes.pop(request.location, None)
                return ClaimAnswer(request.number)
            except (ForeignCheckpoint, Conflict) as error:
                self._notes.pop(request.location, None)
                self._log.warning("checkpoint location refused", location=request.location, problem=str(error))
                return ClaimAnswer(request.number, str(error))
            except OwnerStateUnknown as error:
                self._notes[request.location] = f"a query waits for its checkpoint: {error}"
                return None
            except (HoldfastError, OSError) as error:
                if isinstance(error, Unavailable) and time.monotonic() < give_up_at:
                    time.sleep(RETRY_S)
                    continue
                return self._allow_without_claim(request, error)

    def _allow_without_claim(self, request: ClaimRequest, error: Exception) -> ClaimAnswer:
        self._log.warning("checkpoint location not claimed", location=request.location, problem=str(error))
        self._notes[request.location] = (
            f"the checkpoint {request.location} is not protected against use by another job: {error}"
        )
        return ClaimAnswer(request.number)
