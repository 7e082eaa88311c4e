"""Signatures: what is known to go wrong, what shows it, and what to do. Each is a function from a case to what it finds."""

from holdfast.explain.diagnose import jobs, kafka, leadership, process, zookeeper
from holdfast.explain.diagnose.case import Case, Diagnosis, ranked

SIGNATURES = (*zookeeper.SIGNATURES, *leadership.SIGNATURES, *jobs.SIGNATURES, *kafka.SIGNATURES, *process.SIGNATURES)


def diagnoses(case: Case) -> list[Diagnosis]:
    """The root first, then by how sure it is and when it began."""
    return ranked(case, [found for signature in SIGNATURES for found in signature(case)])


__all__ = ["SIGNATURES", "Case", "Diagnosis", "diagnoses"]
