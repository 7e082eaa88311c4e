"""From what was gathered to the answer. Pure."""

from holdfast.explain.answer import Answer
from holdfast.explain.causes import Causes
from holdfast.explain.clocks import clocks
from holdfast.explain.component import components
from holdfast.explain.diagnose import Case, diagnoses
from holdfast.explain.gathered import Gathered
from holdfast.explain.happening import Happening, folded
from holdfast.explain.library import Library


def answer(gathered: Gathered, library: Library) -> Answer:
    aligned = clocks(gathered.events, library.rules)
    owners = dict(components(gathered.files, gathered.events))
    happenings = []
    for event in gathered.events:
        at = aligned.at(event)
        if at is not None:  # what nothing dates can be shown, and not be reasoned with
            owner = owners[event.file, event.offset]
            happenings.append(Happening(event, owner.name, at - event.duration_ms, at))
    in_order = folded(happenings)
    case = Case.of(in_order, Causes(in_order, library.rules))
    return Answer(gathered, aligned, owners, tuple(in_order), tuple(diagnoses(case, library.signatures)))
