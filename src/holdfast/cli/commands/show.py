"""`holdfast show`: everything about one job, and first of all why it does not run."""

import json
import math
import shlex
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.commands.events import happening_as_json, happenings, print_happenings
from holdfast.cli.commands.ls import job_as_json, number
from holdfast.cli.render import checkpoint, lag, offsets
from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.terminal import UNKNOWN, console, phase_text, print_hanging
from holdfast.cli.render.times import age, iso, stamp
from holdfast.client.session import read
from holdfast.client.target import find, target_options
from holdfast.model.job import Desired
from holdfast.model.phase import Phase
from holdfast.zk.records.cluster_view import ClusterView, observe
from holdfast.zk.records.job_reader import Job, find_job, optional
from holdfast.zk.records.paths import Paths
from holdfast.zk.records.upgrade import Version, read_versions
from holdfast.zk.session.client import Client

EVENTS_SHOWN = 10
OFFSET_SHOWN = 400
KEY_WIDTH = 11


@click.command()
@target_options
@job_argument()
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def show(directory: Path | None, connect: str | None, cluster_name: str | None, job: str, as_json: bool) -> None:
    """Show why a job does not run, or where it does. And what it is, and what happened to it.

    JOB is its name, its id, or how its id begins.
    """
    target = find(directory, connect, cluster_name)
    found, view, versions, storage = read(target, lambda client: _look(client, target.paths, job))
    sight = checkpoint.look(found, storage)
    if as_json:
        told = {
            **job_as_json(found),
            "spec": asdict(found.spec) if found.spec is not None else None,
            "versions": list(map(_version_as_json, versions)),
            "events": [happening_as_json(happening) for happening in happenings([found])],
            "checkpoint": checkpoint.as_json(sight),
            "kafka": offsets.as_json(sight.lost),
        }
        click.echo(json.dumps(told, indent=2))
    else:
        _print(console(), found, view, versions, sight, time.time())


async def _look(client: Client, paths: Paths, text: str) -> tuple[Job, ClusterView, list[Version], str | None]:
    view = await observe(client, paths)
    storage = await optional(client.get(paths.storage))
    location = storage.data.decode(errors="replace") if storage is not None else None
    job = await find_job(client, paths, text)
    return job, view, await read_versions(client, paths, job.id), location


def _version_as_json(version: Version) -> dict[str, Any]:
    spec = asdict(version.spec) if version.spec is not None else None
    return {"version": version.number, "at": iso(version.made_ms / 1000), "by": version.by, "spec": spec}


def _print(screen: Console, job: Job, view: ClusterView, versions: list[Version], sight: checkpoint.Sight, now: float) -> None:
    screen.print(_verdict(job, now))
    for remark in _remarks(job, view, now):
        screen.print(Text(plain(remark), style="yellow"))
    screen.print()
    for key, text in (*_facts(job, now), *_version_facts(job, versions, now), *checkpoint.facts(sight, now)):
        print_hanging(screen, Text.assemble((f"  {key:<{KEY_WIDTH}}", "dim")), plain(text))
    if sight.lost is not None and job.lease is None and not job.ended:
        screen.print()
        offsets.print_lost(screen, job, sight.lost, now)
    happened = happenings([job])[-EVENTS_SHOWN:]
    if happened:
        screen.print()
        print_happenings(screen, happened, named=False)


def _verdict(job: Job, now: float) -> Text:
    """The first line is the answer."""
    name = Text(plain(job.label), style="bold")
    if job.lease is not None:
        since = _running_since(job)
        begun = f" since {stamp(since, now)} ({age(since, now)})" if since is not None else ""
        how = ", ".join((f"attempt {job.lease.attempt}", *_progress(job)))
        runs = Text.assemble(name, (" runs ", "green"), f"on {plain(job.lease.node)}{begun}: {how}")
        if job.defects or job.phase is not Phase.RUNNING:
            return runs.append(f"; {plain(job.reason)}")
        return runs.append(f"; {plain(job.lease.note)}") if job.lease.note else runs
    verb, long = (
        (" ended: ", f" {age(job.since, now)} ago") if job.ended else (" does not run: ", f" for {age(job.since, now)}")
    )
    return Text.assemble(name, verb, phase_text(job.phase), f"{long}: {plain(job.reason)}")


def _progress(job: Job) -> list[str]:
    if job.progress.batch_id is None:
        return []
    speed = job.progress.rows_per_second
    return [f"batch {job.progress.batch_id:,}", *([f"{number(speed)} rows/s"] if speed is not None else [])]


def _running_since(job: Job) -> float | None:
    if job.report is not None and job.lease is not None and job.report.attempt == job.lease.attempt:
        return job.report.started
    return job.since


def _remarks(job: Job, view: ClusterView, now: float) -> list[str]:
    """What explains that nothing moves, and stands in no reason."""
    found: list[str] = []
    if job.ended:
        return found
    if view.leader is None:
        found.append("no node leads at the moment: nothing is decided about it until one does")
    if job.phase is Phase.BACKOFF and job.state is not None:
        left_s = math.ceil(max(job.state.not_before - now, 0)) if math.isfinite(job.state.not_before) else 0
        found.append(f"the next attempt is due in {left_s} s" if left_s else "the next attempt is due now")
    if job.lease is None and job.phase is Phase.RUNNING:
        found.append("its lease is gone: the leader is about to notice")
    if job.node is not None and job.node not in dict(view.nodes):
        found.append(
            f"node {job.node} is not there at the moment; a driver on it lives on as long as its runner holds the lease"
        )
    if job.wanted is not None and job.wanted.desired is not Desired.RUN and job.phase in (Phase.PENDING, Phase.RUNNING):
        found.append(f"a person asked to {job.wanted.desired} it, and the leader has not acted on that yet")
    if job.phase is Phase.QUARANTINED:
        found.append(f"'holdfast quarantine show {job.id}' tells more")
    return found


def _facts(job: Job, now: float) -> list[tuple[str, str]]:
    submitted = job.submitted_ms / 1000 if job.submitted_ms is not None else None
    facts = [
        ("id", job.id),
        ("phase", job.phase or UNKNOWN),
        ("wanted", _wanted(job)),
        ("submitted", f"{stamp(submitted, now)} ({age(submitted, now)} ago)"),
        *_spec_facts(job),
        ("attempts", _attempts(job)),
    ]
    if job.lease is not None:
        driver = f"driver pid {job.lease.driver_pid}" if job.lease.driver_pid is not None else "driver not started yet"
        facts.append(("processes", f"on {job.lease.node}: {driver}, runner pid {job.lease.runner_pid}"))
    elif job.report is not None and job.report.outcome is not None:
        outcome = job.report.outcome
        ended = f"attempt {job.report.attempt} on {job.report.node} {outcome.ending}: {outcome.reason}"
        facts.append(("last", ended + ("" if job.report.dead else " (nobody has certified that it is dead)")))
    if progress := _progress(job):
        facts.append(("progress", ", ".join(progress)))
    facts += lag.facts(job.progress.lag, alive=job.lease is not None)
    for offset in job.progress.offsets:
        facts.append(("offsets", offset if len(offset) <= OFFSET_SHOWN else f"{offset[:OFFSET_SHOWN]}… (--json has all)"))
    return facts


def _spec_facts(job: Job) -> list[tuple[str, str]]:
    spec = job.spec
    if spec is None:
        return []
    facts = [
        ("script", f"{shlex.join([spec.script, *spec.arguments])} (sha256 {spec.blob[:12]})"),
        ("slots", str(spec.slots)),
        ("restart", spec.restart),
    ]
    facts += [("conf", f"{key}={value}") for key, value in spec.conf]
    if spec.py_files:
        facts.append(("py-files", ", ".join(name for name, _ in spec.py_files)))
    return facts


def _version_facts(job: Job, versions: list[Version], now: float) -> list[tuple[str, str]]:
    """Only if there is more than the one that was submitted."""
    stands = job.state.versions if job.state is not None else None
    marks = {stands.current: "current", stands.rejected: "failed its trial"} if stands is not None else {}
    if stands is not None and stands.on_trial:
        marks[stands.current] = f"on trial until its first batch; otherwise version {stands.fallback} comes back"
    facts = []
    for version in versions if len(versions) > 1 else []:
        script = f"{version.spec.script} (sha256 {version.spec.blob[:12]})" if version.spec is not None else "cannot be read"
        made = f"{stamp(version.made_ms / 1000, now)}{f' by {version.by}' if version.by else ''}"
        mark = f": {marks[version.number]}" if version.number in marks else ""
        facts.append((f"version {version.number}", f"{script}, {made}{mark}"))
    return facts


def _wanted(job: Job) -> str:
    if job.wanted is None:
        return UNKNOWN
    return job.wanted.desired + (" (the next attempt may start anywhere)" if job.wanted.force else "")


def _attempts(job: Job) -> str:
    failures = job.state.failures.in_a_row if job.state is not None else 0
    in_a_row = f", failures in a row: {failures}" if failures else ""
    return f"{job.attempt}, restarts: {job.restarts}{in_a_row}" if job.attempt else "none yet"
