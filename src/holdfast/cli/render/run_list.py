"""Print the runs of a scheduled job, for `holdfast show`."""

from rich.console import Console
from rich.text import Text

from holdfast.cli.render.sanitize import sanitize
from holdfast.cli.render.terminal import print_hanging
from holdfast.client.timestamps import age, stamp
from holdfast.model.plural import format_count
from holdfast.model.schedule.runs import Run, RunHistory, RunOutcome
from holdfast.zk.records.stored_job import StoredJob

_STYLES = {RunOutcome.FINISHED: "green", RunOutcome.FAILED: "red"}
_OUTCOME_WIDTH = max(map(len, RunOutcome))


def print_runs(screen: Console, job: StoredJob, now: float) -> None:
    """Print one line per run, the oldest first, the open run last."""
    history = job.runs
    if history is None or not history.number:
        return
    runs = [*history.ended, *([history.run] if history.run is not None else [])]
    screen.print()
    screen.print(Text(_headline(history, len(runs)), style="dim"))
    due = [stamp(run.due, now) for run in runs]
    numbers = [str(run.number) for run in runs]
    for run, at, number in zip(runs, due, numbers, strict=True):
        outcome = run.outcome or (job.phase.lower() if job.phase is not None and job.has_ended else "open")
        head = Text.assemble(
            f"{number:>{max(map(len, numbers))}}  ",
            (f"{at:>{max(map(len, due))}}  ", "dim"),
            (f"{outcome:<{_OUTCOME_WIDTH}}  ", _STYLES.get(run.outcome, "cyan") if run.outcome is not None else "cyan"),
        )
        print_hanging(screen, head, sanitize("; ".join(_details(run, now))))


def _headline(history: RunHistory, shown: int) -> str:
    runs = format_count(history.number, "run")
    failed = f", the last {history.failed_in_a_row} failed" if history.failed_in_a_row else ""
    return f"{runs}{failed}" + (f"; the last {shown}:" if shown < history.number else ":")


def _details(run: Run, now: float) -> list[str]:
    found = ["requested by a user"] if run.requested else []
    if run.started is None:
        return [*found, "waits for a node"]
    if run.ended is not None:
        found.append(f"took {age(run.started, run.ended)}")
    else:
        found.append(f"began {age(run.started, now)} ago")
    if run.started - run.due >= 1:
        found.append(f"began {age(run.due, run.started)} late")
    last = run.first_attempt + run.attempts - 1
    found.append(f"attempt {last}" if run.attempts == 1 else f"attempts {run.first_attempt} to {last}")
    if run.batches is not None:
        found.append(format_count(run.batches, "batch", "batches"))
    if run.skipped:
        found.append(f"{format_count(run.skipped, 'run')} skipped before it")
    if run.reason and run.outcome is not RunOutcome.FINISHED:
        found.append(run.reason)
    return found
