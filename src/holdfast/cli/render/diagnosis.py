"""What `holdfast explain` says to people: what, when, where, why, what to do; and the lines that show it."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from holdfast.cli.render.sanitize import plain

if TYPE_CHECKING:
    from holdfast.explain.diagnose import Diagnosis
    from holdfast.explain.event import Event
    from holdfast.explain.report.answer import Answer

EVIDENCE_SHOWN = 5
BURSTS_SHOWN = 3
_INDENT = 4


def show(answer: "Answer", console: Console) -> None:
    if not answer.diagnoses:
        console.print(Text(plain(answer.summary), style="bold"))
    for number, diagnosis in enumerate(answer.diagnoses, 1):
        _show_one(answer, number, diagnosis, console)
    _show_bursts(answer, console)
    console.print(Text(_counts(answer), style="dim"))
    for note in answer.notes:
        console.print(Text(f"note: {plain(note)}", style="yellow"))


def _show_one(answer: "Answer", number: int, one: "Diagnosis", console: Console) -> None:
    from holdfast.explain.library.timestamp import stamp

    root = Text("  the root", style="bold red") if one.root and len(answer.diagnoses) > 1 else Text()
    console.print(Text.assemble(f"{number}. ", (plain(one.title), "bold"), root))
    when = stamp(one.begin_ms).replace("T", " ")
    until = f" to {stamp(one.end_ms).replace('T', ' ')}" if one.end_ms != one.begin_ms else ""
    zone = " UTC" if all(happening.event.zoned for happening in one.evidence) else ""
    sure = f"{one.confidence:.0%} sure"
    _indented(
        console, Text(f"{when}{until}{zone} at {plain(', '.join(one.components))} ({one.signature}, {sure})", style="cyan")
    )
    _indented(console, Text(plain(one.explanation)))
    _indented(console, Text.assemble(("what to do: ", "bold"), plain(one.advice)))
    if one.issues:
        _indented(console, Text(f"known as {', '.join(one.issues)}", style="dim"))
    if len(one.chain) > 1:
        _indented(console, Text("how it came about:", style="bold"))
        for link in one.chain:
            at = stamp(link.happening.begin_ms).split("T")[1]
            why = f"  ({plain(link.rule)}, {link.delay_ms:,} ms later)" if link.rule else ""
            said = f"{at}  {plain(link.happening.component)}: {plain(link.happening.event.says)}"
            _indented(console, Text.assemble(said, (why, "dim")), 2)
    _indented(console, Text("seen in:", style="bold"))
    for happening in one.evidence[:EVIDENCE_SHOWN]:
        event = happening.event
        times = f" ({happening.count:,} times)" if happening.count > 1 else ""
        where = f"{plain(answer.gathered.files[event.file])}:{event.line}{times}  "
        _indented(console, Text.assemble((where, "dim"), plain(_line(event))), 2)
    if len(one.evidence) > EVIDENCE_SHOWN:
        _indented(console, Text(f"and {len(one.evidence) - EVIDENCE_SHOWN} more (--json has all)", style="dim"), 2)
    console.print()


def _show_bursts(answer: "Answer", console: Console) -> None:
    from holdfast.explain.library.timestamp import stamp
    from holdfast.explain.timeline.bursts import bursts

    all_ = bursts(answer.happenings, answer.gathered.dropped)
    for one in all_[:BURSTS_SHOWN]:
        seconds = max(1, round((one.end_ms - one.begin_ms) / 1000))
        said = f"{one.count:,} times {one.kind} within {seconds:,} s at {plain(one.component)}: {plain(one.first.event.says)}"
        console.print(Text.assemble((f"burst: {stamp(one.begin_ms).replace('T', ' ')}  ", "cyan"), said))
    if len(all_) > BURSTS_SHOWN:
        console.print(Text(f"and {len(all_) - BURSTS_SHOWN} more bursts (--json has them)", style="dim"))


def _line(event: "Event") -> str:
    """As it stands there; if that is for machines, what it says."""
    return f"{event.fields.get('time', '')} {event.says}" if event.text.startswith("{") else event.text


def _indented(console: Console, text: Text, more: int = 0) -> None:
    console.print(Padding(text, (0, 0, 0, _INDENT + more)) if console.is_terminal else Text(" " * (_INDENT + more)) + text)


def _counts(answer: "Answer") -> str:
    counts = answer.gathered.counts
    files = len(answer.gathered.files)
    return (
        f"{files} file{'s' if files != 1 else ''}, {counts.bytes:,} bytes, {counts.lines:,} lines, {counts.records:,} records, "
        f"{counts.events:,} events; {counts.unparsed_lines:,} lines belong to no record"
    )
