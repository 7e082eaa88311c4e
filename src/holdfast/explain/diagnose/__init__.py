"""Signatures: what is known to go wrong, and what shows it. Each is a function from a case to what it finds."""

from collections.abc import Mapping

from holdfast.explain.diagnose import clock_skew, flink_jobs, holdfast_jobs, kafka, leadership, process_pause, zookeeper
from holdfast.explain.diagnose.case import Case, Diagnosis, told
from holdfast.explain.library.signature import Signature

SIGNATURES = (
    *zookeeper.SIGNATURES,
    *leadership.SIGNATURES,
    *flink_jobs.SIGNATURES,
    *holdfast_jobs.SIGNATURES,
    *kafka.SIGNATURES,
    *process_pause.SIGNATURES,
    *clock_skew.SIGNATURES,
)


def diagnoses(case: Case, signatures: Mapping[str, Signature]) -> list[Diagnosis]:
    return told(case, [found for signature in SIGNATURES for found in signature(case)], signatures)


__all__ = ["SIGNATURES", "Case", "Diagnosis", "diagnoses"]
