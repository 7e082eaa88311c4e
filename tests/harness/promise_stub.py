"""Failsafe promises of a node without a journal, for tests of what follows from them."""

from collections.abc import Collection

from holdfast.model.identifiers import Attempt, JobId


class PromiseStub:
    """Implementation of `node.expiry_certificate.LocalPromises`."""

    def __init__(self, remaining_s: float = 0.0) -> None:
        self.left_s = remaining_s
        self.period_s = 13.0
        self.refused: dict[JobId, Attempt] = {}

    def remaining_s(self, job: JobId, attempt: Attempt) -> float:
        return self.left_s

    def refuse(self, job: JobId, attempt: Attempt) -> None:
        self.refused[job] = attempt

    def allow_except(self, jobs: Collection[JobId]) -> None:
        self.refused = {job: attempt for job, attempt in self.refused.items() if job in jobs}
