"""Severity of a set of findings."""

from collections.abc import Iterable

from holdfast.kafka.check.offset_finding import OffsetFinding, Severity


def worst_severity(findings: Iterable[OffsetFinding]) -> Severity | None:
    return max((finding.weight for finding in findings), default=None)
