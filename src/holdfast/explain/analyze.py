"""Analyze a merged scan: put events on a common clock, find causes, diagnose. Pure: the same scan gives the same answer."""

from collections.abc import Iterator, Sequence

from holdfast.explain.diagnose import diagnose
from holdfast.explain.gc_pause import gc_disabled
from holdfast.explain.library import Library
from holdfast.explain.report.answer import Answer
from holdfast.explain.timeline.bursts import find_bursts
from holdfast.explain.timeline.causes import CauseFinder
from holdfast.explain.timeline.clocks import QUARTER_HOUR_MS, Clocks, align_clocks, clock_of
from holdfast.explain.timeline.component import Component, assign_components
from holdfast.explain.timeline.lifetimes import find_lifetimes
from holdfast.explain.timeline.merge import MergedScan
from holdfast.explain.timeline.occurrence import Occurrence, fold_repetitions
from holdfast.explain.timeline.timeline import ClockSkew, Timeline


@gc_disabled()
def analyze(scan: MergedScan, library: Library) -> Answer:
    clocks = align_clocks(scan.events, library.rules)
    components = dict(assign_components(scan.files, scan.events))
    occurrences = fold_repetitions(_occurrences(scan, clocks, components))
    timeline = Timeline(occurrences, tuple(_clock_skews(clocks, components, occurrences)))
    causes = CauseFinder(timeline, library.rules)
    return Answer(
        scan,
        clocks,
        components,
        timeline.occurrences,
        tuple(diagnose(timeline, causes, library.signatures)),
        tuple(find_lifetimes(occurrences)),
        tuple(find_bursts(occurrences, scan.dropped)),
        tuple(one for one in occurrences if (one.kind, one.event.system) in library.patterns.notable),
    )


def _occurrences(scan: MergedScan, clocks: Clocks, components: dict[tuple[int, int], Component]) -> Iterator[Occurrence]:
    """Place events on the common clock. Events without a time appear in the answer, but take no part in the analysis."""
    for event in scan.events:
        at_ms = clocks.event_ms(event)
        if at_ms is not None:
            component = components[event.file, event.offset]
            number, last_ms = event.repetitions
            common_last_ms = clocks.to_common_ms(clock_of(event), last_ms) if last_ms is not None else 0
            yield Occurrence(event, component.name, at_ms - event.duration_ms, at_ms, 1 + number, common_last_ms)


def _clock_skews(
    clocks: Clocks, components: dict[tuple[int, int], Component], occurrences: Sequence[Occurrence]
) -> Iterator[ClockSkew]:
    """Yield the clocks that were corrected, apart from whole quarters of an hour: those are time zones."""
    if not clocks.anchors:
        return
    by_position = {(one.event.file, one.event.offset): one for one in occurrences}
    for clock, anchors in sorted(clocks.anchors.items()):
        positions = [(event.file, event.offset) for event in anchors]
        evidence = tuple(by_position[position] for position in positions if position in by_position)
        offset_ms = clocks.offset_ms[clock]
        behind_ms = offset_ms - round(offset_ms / QUARTER_HOUR_MS) * QUARTER_HOUR_MS
        if evidence:
            yield ClockSkew(components[positions[0]].name, behind_ms, clocks.error_ms[clock] or 0, evidence)
