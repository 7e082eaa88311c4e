"""Report of a run as one HTML page without references: violations, unavailability per kind, timeline per job and fault."""

from html import escape
from pathlib import Path

from tests.chaos.checkers import Violation
from tests.chaos.history import FaultRecord, History
from tests.chaos.unavailability import heartbeat_gaps, summarize

PIXELS_PER_S = 8.0
WIDTH_MAX = 60_000
ROW = 26
MARGIN_LEFT = 90
STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2em; color: #222; background: #fff }
table { border-collapse: collapse } td, th { padding: .2em .8em; border-bottom: 1px solid #ddd; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.scroll { overflow-x: auto; border: 1px solid #ddd; margin: 1em 0 }
.bad { color: #b00020 } .fault { fill: #f3b200; opacity: .28 } .recovery { fill: #f3b200; opacity: .1 }
.even { fill: #2f6fb0 } .odd { fill: #6aa5da } .gap { fill: #d33 } text { font: 11px system-ui, sans-serif }
"""


def write_report(file: Path, history: History, violations: list[Violation]) -> None:
    file.write_text(render_report(history, violations), encoding="utf-8")


def render_report(history: History, violations: list[Violation]) -> str:
    run = history.run
    title = f"Chaos run, seed {run.seed}"
    facts = (
        f"{len(history.faults)} faults, {sum(each.is_driver for each in history.processes)} drivers, "
        f"{len(history.operations)} operations of users, session timeout T = {run.session_timeout_s:g} s, "
        f"longest gap between two scans of the witness {history.longest_gap_s:.2f} s"
    )
    return "\n".join(
        [
            f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title><style>{STYLE}</style>",
            f"<h1>{title}</h1><p>{facts}</p>",
            f"<h2>Violations: {len(violations)}</h2>",
            _violations_table(history, violations),
            "<h2>Unavailability per kind of fault</h2>",
            "<p>Longest time without a heartbeat of the job that was hit hardest, in seconds.</p>",
            _summary_table(history),
            "<h2>Timeline</h2>",
            "<p>One row per steady job. Bars are drivers, as the kernel showed them; red is time without heartbeats. "
            "Yellow is the time of a fault, light yellow the time until all jobs were healthy again.</p>",
            f"<div class='scroll'>{_timeline(history)}</div>",
            "<h2>Faults</h2>",
            _fault_table(history),
            "</html>",
        ]
    )


def _violations_table(history: History, violations: list[Violation]) -> str:
    if not violations:
        return "<p>None.</p>"
    names = {steady.job: steady.name for steady in history.steady}
    rows = [
        f"<tr class='bad'><td class='number'>{each.at - history.run.started_at:.1f}</td><td class='number'>{each.fault}</td>"
        f"<td>{escape(each.rule)}</td><td>{escape(names.get(each.job, each.job))}</td><td>{escape(each.text)}</td></tr>"
        for each in violations
    ]
    return _table("second", "after fault", "rule", "job", "finding", rows=rows)


def _summary_table(history: History) -> str:
    rows = [
        f"<tr><td>{escape(each.kind)}</td><td class='number'>{each.faults}</td><td class='number'>{each.p50_s:.2f}</td>"
        f"<td class='number'>{each.p99_s:.2f}</td><td class='number'>{each.max_s:.2f}</td></tr>"
        for each in summarize(history)
    ]
    return _table("kind", "faults", "p50", "p99", "max", rows=rows)


def _fault_table(history: History) -> str:
    return _table(
        "no.",
        "second",
        "kind",
        "duration",
        "may restart",
        "hit",
        "healthy again",
        rows=[_fault_row(history, fault) for fault in history.faults],
    )


def _fault_row(history: History, fault: FaultRecord) -> str:
    names = {steady.job: steady.name for steady in history.steady}
    hit = ", ".join(f"{each.role} {each.node} {names.get(each.job, each.job)} (pid {each.pid})" for each in fault.targets)
    healthy = "no" if fault.recovered_at is None else f"after {fault.recovered_at - fault.healed_at:.1f} s"
    cells = [
        str(fault.number),
        f"{fault.injected_at - history.run.started_at:.1f}",
        fault.kind,
        fault.duration,
        ", ".join(names.get(job, job) for job in fault.may_restart) or "none",
        hit,
        healthy,
    ]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _table(*headings: str, rows: list[str]) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def _timeline(history: History) -> str:
    start = history.run.started_at
    duration_s = max(history.ended_at - start, 1.0)
    scale = min(PIXELS_PER_S, WIDTH_MAX / duration_s)
    height = ROW * (len(history.steady) + 1)

    def bar(kind: str, begin: float, end: float, y: float, tall: float, label: str) -> str:
        left, width = MARGIN_LEFT + (begin - start) * scale, max((end - begin) * scale, 1.0)
        return (
            f"<rect class='{kind}' x='{left:.1f}' y='{y:.0f}' width='{width:.1f}' height='{tall:.0f}'>"
            f"<title>{escape(label)}</title></rect>"
        )

    shapes = []
    for fault in history.faults:
        label = f"{fault.number}: {fault.kind} {fault.duration}"
        shapes.append(bar("fault", fault.injected_at, fault.healed_at, 0, height, label))
        shapes.append(bar("recovery", fault.healed_at, fault.recovered_at or fault.healed_at + fault.bound_s, 0, height, label))
        shapes.append(f"<text x='{MARGIN_LEFT + (fault.injected_at - start) * scale:.1f}' y='14'>{fault.number}</text>")
    for row, steady in enumerate(history.steady, 1):
        y = row * ROW
        shapes.append(f"<text x='2' y='{y + 14}'>{escape(steady.name)}</text>")
        for driver in history.processes:
            if driver.job == steady.job and driver.is_driver:
                label = f"{steady.name}: attempt {driver.attempt}, pid {driver.pid}"
                # Two rows of bars: an overlap of two attempts is visible.
                top = y + (0 if driver.attempt % 2 else 8)
                shapes.append(bar("odd" if driver.attempt % 2 else "even", driver.first_seen, driver.last_seen, top, 8, label))
        for before, after in heartbeat_gaps(history, steady.job):
            shapes.append(bar("gap", before, after, y + 17, 4, f"{steady.name}: {after - before:.2f} s without heartbeats"))
    return f"<svg width='{MARGIN_LEFT + duration_s * scale + 20:.0f}' height='{height}'>{''.join(shapes)}</svg>"
