"""Print the diagnoses of `holdfast explain`: what happened, when, where, why, what to do, and the log lines that show it."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from holdfast.cli.render.sanitize import sanitize

if TYPE_CHECKING:
    from holdfast.explain.diagnose import Diagnosis
    from holdfast.explain.event import LogEvent
    from holdfast.explain.report.answer import Answer
    from holdfast.explain.scan.error_lines import ErrorLine

EVIDENCE_SHOWN = 5
BURSTS_SHOWN = 3
ERRORS_SHOWN = 5
_INDENT = 4


def print_answer(answer: "Answer", console: Console) -> None:
    if not answer.diagnoses:
        console.print(Text(sanitize(answer.summary), style="bold"))
        _show_errors(answer, console)
    for number, diagnosis in enumerate(answer.diagnoses, 1):
        _show_one(answer, number, diagnosis, console)
    _show_bursts(answer, console)
    console.print(Text(_counts(answer), style="dim"))
    for note in answer.notes:
        console.print(Text(f"note: {sanitize(note)}", style="yellow"))


def _show_one(answer: "Answer", number: int, one: "Diagnosis", console: Console) -> None:
    from holdfast.explain.library.timestamp import format_timestamp

    root = Text("  root cause", style="bold red") if one.root and len(answer.diagnoses) > 1 else Text()
    console.print(Text.assemble(f"{number}. ", (sanitize(one.title), "bold"), root))
    when = format_timestamp(one.begin_ms).replace("T", " ")
    until = f" to {format_timestamp(one.end_ms).replace('T', ' ')}" if one.end_ms != one.begin_ms else ""
    zone = " UTC" if all(occurrence.event.zoned for occurrence in one.evidence) else ""
    sure = f"{one.confidence:.0%} sure"
    _print_indented(
        console, Text(f"{when}{until}{zone} at {sanitize(', '.join(one.components))} ({one.signature}, {sure})", style="cyan")
    )
    _print_indented(console, Text(sanitize(one.explanation)))
    _print_indented(console, Text.assemble(("what to do: ", "bold"), sanitize(one.advice)))
    if one.issues:
        _print_indented(console, Text(f"known as {', '.join(one.issues)}", style="dim"))
    if len(one.chain) > 1:
        _print_indented(console, Text("cause chain:", style="bold"))
        for link in one.chain:
            at = format_timestamp(link.occurrence.begin_ms).split("T")[1]
            why = f"  ({sanitize(link.rule)}, {link.delay_ms:,} ms later)" if link.rule else ""
            statement = f"{at}  {sanitize(link.occurrence.component)}: {sanitize(link.occurrence.event.description)}"
            _print_indented(console, Text.assemble(statement, (why, "dim")), 2)
    _print_indented(console, Text("evidence:", style="bold"))
    for occurrence in one.evidence[:EVIDENCE_SHOWN]:
        event = occurrence.event
        times = f" ({occurrence.count:,} times)" if occurrence.count > 1 else ""
        where = f"{sanitize(answer.scan.files[event.file])}:{event.line}{times}  "
        _print_indented(console, Text.assemble((where, "dim"), sanitize(_line(event))), 2)
    if len(one.evidence) > EVIDENCE_SHOWN:
        _print_indented(console, Text(f"and {len(one.evidence) - EVIDENCE_SHOWN} more (--json has all)", style="dim"), 2)
    console.print()


def _show_errors(answer: "Answer", console: Console) -> None:
    """Print the first and the most frequent error lines."""
    first, frequent = answer.first_error(), answer.frequent_errors()
    if first is None:
        return
    _print_indented(console, Text("first error line:", style="bold"))
    _print_indented(console, _error(answer, first, ""), 2)
    _print_indented(console, Text("most frequent error lines:", style="bold"))
    for one in frequent[:ERRORS_SHOWN]:
        _print_indented(console, _error(answer, one, f" ({one.total:,} {'time' if one.total == 1 else 'times'})"), 2)
    if len(frequent) > ERRORS_SHOWN:
        _print_indented(console, Text(f"and {len(frequent) - ERRORS_SHOWN} more (in the --json answer)", style="dim"), 2)


def _error(answer: "Answer", one: "ErrorLine", times: str) -> Text:
    where = f"{sanitize(answer.scan.files[one.file])}:{one.line}{times}  "
    return Text.assemble((where, "dim"), sanitize(one.text))


def _show_bursts(answer: "Answer", console: Console) -> None:
    from holdfast.explain.library.timestamp import format_timestamp

    for one in answer.bursts[:BURSTS_SHOWN]:
        seconds = max(1, round((one.end_ms - one.begin_ms) / 1000))
        where, description = sanitize(one.component), sanitize(one.first.event.description)
        statement = f"{one.count:,} times {one.kind} within {seconds:,} s at {where}: {description}"
        console.print(Text.assemble((f"burst: {format_timestamp(one.begin_ms).replace('T', ' ')}  ", "cyan"), statement))
    if len(answer.bursts) > BURSTS_SHOWN:
        console.print(Text(f"and {len(answer.bursts) - BURSTS_SHOWN} more bursts (--json has them)", style="dim"))


def _line(event: "LogEvent") -> str:
    """Return the log line; for a JSON line, its time and message."""
    return f"{event.fields.get('time', '')} {event.description}" if event.text.startswith("{") else event.text


def _print_indented(console: Console, text: Text, more: int = 0) -> None:
    console.print(Padding(text, (0, 0, 0, _INDENT + more)) if console.is_terminal else Text(" " * (_INDENT + more)) + text)


def _counts(answer: "Answer") -> str:
    from holdfast.explain.report.answer import format_count

    counts = answer.scan.counts
    numbers = (
        (len(answer.scan.files), "file"),
        (counts.bytes, "byte"),
        (counts.lines, "line"),
        (counts.records, "record"),
        (counts.events, "event"),
    )
    read = ", ".join(format_count(number, name, f"{name}s") for number, name in numbers)
    return f"{read}; {format_count(counts.unparsed_lines, 'line belongs', 'lines belong')} to no record"
