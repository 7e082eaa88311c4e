"""`holdfast apply`: makes the jobs of a cluster equal to a directory of job files."""

import enum
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.terminal import is_terminal
from holdfast.client.identity import identity
from holdfast.client.job_file import JobFile, read_directory
from holdfast.client.retry import act
from holdfast.client.session import read
from holdfast.client.target import Target, find, target_options
from holdfast.client.upload import ensure, storage_of, upload
from holdfast.errors import Refused
from holdfast.model.identifiers import JobId
from holdfast.model.job import Desired, Spec
from holdfast.model.versions import TRIAL_S
from holdfast.zk.records import submission
from holdfast.zk.records.job_reader import Job, read_jobs
from holdfast.zk.records.upgrade import upgrade as write_version


class Act(enum.StrEnum):
    SUBMIT = "+"
    UPGRADE = "~"
    CANCEL = "-"
    NOTHING = "="


@dataclass(frozen=True, slots=True)
class Change:
    act: Act
    name: str
    says: str
    file: JobFile | None = None
    job: Job | None = None


def compare(files: Sequence[JobFile], jobs: Sequence[Job]) -> list[Change]:
    """What it takes. Pure. Raises Refused for what no change can bring about."""
    live = {job.name: job for job in jobs if not job.ended}
    changes: list[Change] = []
    for file in files:
        job = live.pop(file.spec.name, None)
        changes.append(_submit(file) if job is None else _upgrade(file, job))
    for job in live.values():
        changes.append(Change(Act.CANCEL, job.name or job.id, f"cancel {job.id}: no file describes it", job=job))
    return sorted(changes, key=lambda change: (list(Act).index(change.act), change.name))


def _submit(file: JobFile) -> Change:
    return Change(Act.SUBMIT, file.spec.name, f"submit {file.spec.script}", file=file)


def _upgrade(file: JobFile, job: Job) -> Change:
    if job.spec is None:
        raise Refused(
            f"{job.label} cannot be read ({job.reason}), so nobody knows what would change: see 'holdfast quarantine'"
        )
    wanted = _next(job.spec, file.spec)
    names = {"blob": "program", "py_files": "files"}
    keys = ("blob", "arguments", "conf", "py_files", "restart", "slots")
    different = [names.get(key, key) for key in keys if getattr(wanted, key) != getattr(job.spec, key)]
    if "slots" in different:
        raise Refused(f"{job.label} takes {job.spec.slots} slots, and a running job keeps its slots: cancel it to change that")
    if not different:
        return Change(Act.NOTHING, file.spec.name, "as it is", file=file, job=job)
    return Change(Act.UPGRADE, file.spec.name, f"upgrade {job.id}: another {', '.join(different)}", file=file, job=job)


def _next(now: Spec, described: Spec) -> Spec:
    """What the job is beyond what a file describes stays."""
    return replace(described, by=now.by, ancestors=now.ancestors)


@click.command()
@target_options
@click.argument("job_files", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def apply(
    directory: Path | None, connect: str | None, cluster_name: str | None, job_files: Path, dry_run: bool, yes: bool
) -> None:
    """Make the jobs of the cluster equal to a directory of job files. Shows what it will do, and asks.

    Each file NAME.toml describes one job: script (relative to the file), arguments, restart, slots, py_files, and a table
    conf. What is new is submitted, what differs is upgraded, and a live job that no file describes is cancelled.
    """
    files = read_directory(job_files)
    target = find(directory, connect, cluster_name)
    changes = compare(files, read(target, lambda client: read_jobs(client, target.paths, ended=False)))
    for change in changes:
        click.echo(f"{change.act} {plain(change.name)}: {plain(change.says)}")
    due = [change for change in changes if change.act is not Act.NOTHING]
    if not due:
        click.echo("nothing to do")
        return
    if dry_run:
        return
    if not yes:
        if not is_terminal(sys.stdin):
            raise Refused("nobody is there to be asked: say --yes to do this, or --dry-run to only see it")
        click.confirm(f"do {'this' if len(due) == 1 else f'these {len(due)} things'}?", abort=True)
    for change in due:
        _carry_out(target, change)
        click.echo(f"{plain(change.name)}: done")


def _carry_out(target: Target, change: Change) -> None:
    """One by one, in the order shown. Who is interrupted says it again: what is done is not done twice."""
    if change.act is Act.CANCEL:
        assert change.job is not None
        id = change.job.id
        act(target, lambda client: submission.want(client, target.paths, id, Desired.CANCEL))
        return
    assert change.file is not None
    storage = storage_of(target)
    blobs = upload(storage, change.file.proposal.files)
    _write(target, change, blobs)
    ensure(storage, blobs)


def _write(target: Target, change: Change, blobs: Mapping[Path, str]) -> None:
    assert change.file is not None
    spec = replace(change.file.proposal.spec(blobs), by=identity())
    if change.job is None:
        job, request = JobId(f"j{secrets.token_hex(6)}"), f"r{secrets.token_hex(8)}"
        act(target, lambda client: submission.submit(client, target.paths, spec, job=job, request=request))
    else:
        id = change.job.id

        def described(now: Spec) -> Spec:
            return replace(_next(now, spec), by=spec.by)

        act(target, lambda client: write_version(client, target.paths, id, described, trial_s=TRIAL_S))
