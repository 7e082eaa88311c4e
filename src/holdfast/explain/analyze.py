"""From what was gathered to the answer. Pure."""

from collections.abc import Iterator, Sequence

from holdfast.explain.diagnose import Case, diagnoses
from holdfast.explain.diagnose.case import Skew
from holdfast.explain.gc_pause import without_collector
from holdfast.explain.library import Library
from holdfast.explain.report.answer import Answer
from holdfast.explain.timeline.causes import Causes
from holdfast.explain.timeline.clocks import QUARTER_MS, Clocks, clock_of, clocks
from holdfast.explain.timeline.component import Component, components
from holdfast.explain.timeline.merge import Gathered
from holdfast.explain.timeline.occurrence import Happening, folded


@without_collector()
def answer(gathered: Gathered, library: Library) -> Answer:
    aligned = clocks(gathered.events, library.rules)
    owners = dict(components(gathered.files, gathered.events))
    happenings = []
    for event in gathered.events:
        at = aligned.at(event)
        if at is not None:  # what nothing dates can be shown, and not be reasoned with
            owner = owners[event.file, event.offset]
            last = aligned.right(clock_of(event), event.again_ms) if event.again_ms is not None else 0
            happenings.append(Happening(event, owner.name, at - event.duration_ms, at, 1 + event.again, last))
    in_order = folded(happenings)
    case = Case.of(in_order, Causes(in_order, library.rules), tuple(_skews(aligned, owners, in_order)))
    return Answer(gathered, aligned, owners, tuple(in_order), tuple(diagnoses(case, library.signatures)))


def _skews(aligned: Clocks, owners: dict[tuple[int, int], Component], happenings: Sequence[Happening]) -> Iterator[Skew]:
    """Of clocks that were set right, as far as that is no matter of zones."""
    if not aligned.anchors:
        return
    told = {(one.event.file, one.event.offset): one for one in happenings}
    for clock, anchors in sorted(aligned.anchors.items()):
        evidence = tuple(told[event.file, event.offset] for event in anchors if (event.file, event.offset) in told)
        moved_ms = aligned.moved_ms[clock]
        behind_ms = moved_ms - round(moved_ms / QUARTER_MS) * QUARTER_MS
        if evidence:
            owner = owners[anchors[0].file, anchors[0].offset]
            yield Skew(owner.name, behind_ms, aligned.error_ms[clock] or 0, evidence)
