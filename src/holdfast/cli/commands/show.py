"""`holdfast show`: print everything about one job, first of all why it does not run."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.commands.completion import job_argument
from holdfast.cli.options import connect_cluster, json_option, target_options
from holdfast.cli.render.json_output import print_json

if TYPE_CHECKING:
    from holdfast.client import JobDetails
    from holdfast.zk.records.upgrade import SpecVersion


@click.command()
@target_options
@job_argument()
@json_option
def show(directory: Path | None, connect: str | None, cluster_name: str | None, job: str, as_json: bool) -> None:
    """Show one job: its state and the reason, its program, progress and events.

    JOB is the job's name, its id, or the first characters of its id.
    """
    details = connect_cluster(directory, connect, cluster_name).details(job)
    if as_json:
        print_json(_as_json(details))
        return
    from holdfast.cli.render.job_details import print_details
    from holdfast.cli.render.terminal import console

    print_details(console(), details, time.time())


def _as_json(details: "JobDetails") -> dict[str, Any]:
    """Return the job as JSON. Scripts rely on these keys."""
    from holdfast.cli.render import checkpoint, offsets
    from holdfast.client.jobs.job_json import event_as_json, job_as_json, run_as_json
    from holdfast.client.jobs.listing import events_of

    job = details.job
    return {
        **job_as_json(job),
        "spec": asdict(job.spec) if job.spec is not None else None,
        "versions": list(map(_version_as_json, details.versions)),
        "events": [event_as_json(event) for event in events_of([job])],
        "runs": [run_as_json(run) for run in job.runs.ended] if job.runs is not None else [],
        "checkpoint": checkpoint.as_json(details.checkpoint),
        "kafka": offsets.as_json(details.checkpoint.lost),
    }


def _version_as_json(version: "SpecVersion") -> dict[str, Any]:
    from holdfast.client.timestamps import iso

    spec = asdict(version.spec) if version.spec is not None else None
    return {"version": version.number, "at": iso(version.created_ms / 1000), "by": version.submitter, "spec": spec}
