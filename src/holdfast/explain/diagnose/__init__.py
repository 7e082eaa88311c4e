"""Detectors of known problems. Each is a function from a timeline to the signatures that it shows.

The texts of the signatures are in `library/signatures.toml`.
"""

from collections.abc import Mapping

from holdfast.explain.diagnose import clock_skew, flink_jobs, holdfast_jobs, kafka, leader_loss, process_pause, zookeeper
from holdfast.explain.diagnose.diagnosis import Diagnosis, build_diagnoses
from holdfast.explain.library.signature import Signature
from holdfast.explain.timeline.causes import CauseFinder
from holdfast.explain.timeline.timeline import Timeline

DETECTORS = (
    *zookeeper.DETECTORS,
    *leader_loss.DETECTORS,
    *flink_jobs.DETECTORS,
    *holdfast_jobs.DETECTORS,
    *kafka.DETECTORS,
    *process_pause.DETECTORS,
    *clock_skew.DETECTORS,
)


def diagnose(timeline: Timeline, causes: CauseFinder, signatures: Mapping[str, Signature]) -> list[Diagnosis]:
    matches = [match for detect in DETECTORS for match in detect(timeline)]
    return build_diagnoses(matches, causes, signatures)


__all__ = ["DETECTORS", "Diagnosis", "diagnose"]
