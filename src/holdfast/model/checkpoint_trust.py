"""Trust in a damaged checkpoint: a person has looked at the findings, and says that the checkpoint may be used."""

from collections.abc import Sequence
from dataclasses import dataclass

FINDINGS_MAX = 2000
"""Findings that an outcome records. A checkpoint with more of them cannot be trusted."""
_ID_LENGTH = 16


@dataclass(frozen=True, slots=True)
class CheckpointTrust:
    """Statement of a person about the findings that had parked the job. It covers no other finding."""

    by: str
    """User and machine, as in `Spec.by`."""
    reason: str
    wall: float
    """Wall time of the statement."""
    findings: tuple[str, ...]
    """Ids of the findings, see `finding_id`."""

    def covers(self, finding: str) -> bool:
        return finding in self.findings

    def __str__(self) -> str:
        return f"{self.by or 'a user'} trusts the checkpoint although it is damaged: {self.reason}"


def finding_id(location: str, finding: str) -> str:
    """Return a short id of one finding about the checkpoint at this location."""
    import hashlib  # expensive import, not needed to read records

    return hashlib.sha256(f"{location}\n{finding}".encode(errors="surrogatepass")).hexdigest()[:_ID_LENGTH]


def record_findings(ids: Sequence[str]) -> tuple[str, ...]:
    """Return the ids for an outcome: all of them, or none if there are too many."""
    return tuple(sorted(set(ids))) if len(ids) <= FINDINGS_MAX else ()
