"""Print everything about one job, for `holdfast show`."""

import math
import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from holdfast.cli.render import checkpoint, lag, offsets
from holdfast.cli.render.event_list import print_events
from holdfast.cli.render.job_table import format_number
from holdfast.cli.render.run_list import print_runs
from holdfast.cli.render.sanitize import sanitize
from holdfast.cli.render.table import UNKNOWN
from holdfast.cli.render.terminal import phase_text, print_hanging
from holdfast.client.jobs.job_reason import describe_last_failure, describe_reason
from holdfast.client.jobs.listing import JobDetails, events_of
from holdfast.client.timestamps import age, stamp
from holdfast.model.job import Desired, Progress, SparkApplication
from holdfast.model.phase import Phase
from holdfast.model.plural import format_count
from holdfast.zk.records.cluster_view import ClusterView
from holdfast.zk.records.stored_job import StoredJob
from holdfast.zk.records.upgrade import SpecVersion

EVENTS_SHOWN = 10
OFFSET_SHOWN = 400
KEY_WIDTH = 11
NO_PROGRESS_RULE = "fails permanently if its script keeps failing before its first batch"


def print_details(screen: Console, details: JobDetails, now: float) -> None:
    job, status = details.job, details.checkpoint
    screen.print(_verdict(job, now))
    for remark in _remarks(job, details.cluster, now):
        screen.print(Text(sanitize(remark), style="yellow"))
    screen.print()
    for key, text in (
        *_facts(job, now),
        *_version_facts(job, details.versions, now),
        *checkpoint.facts(status, now, ended=job.has_ended),
    ):
        print_hanging(screen, Text.assemble((f"  {key:<{KEY_WIDTH}}", "dim")), sanitize(text))
    if status.lost is not None and job.lease is None and not job.has_ended:
        screen.print()
        offsets.print_lost(screen, job, status.lost, now)
    print_runs(screen, job, now)
    events = events_of([job])[-EVENTS_SHOWN:]
    if events:
        screen.print()
        print_events(screen, events, with_names=False)


def _verdict(job: StoredJob, now: float) -> Text:
    """Return the first line: the phase of the job and the reason."""
    name = Text(sanitize(job.label), style="bold")
    if job.lease is not None:
        how = ", ".join((f"attempt {job.lease.attempt}", *_attempt_start(job, now), *_progress(job)))
        starts = job.phase is Phase.STARTING
        how_it_is = (" is starting ", "cyan") if starts else (" is running ", "green")
        runs = Text.assemble(name, how_it_is, f"on {sanitize(job.lease.node)}: {how}")
        if job.defects or not (starts or job.phase is Phase.RUNNING):
            return runs.append(f"; {sanitize(job.reason)}")
        remarks = filter(None, (job.lease.note, describe_last_failure(job, now)))
        return runs.append("".join(f"; {sanitize(remark)}" for remark in remarks))
    verb, long = (
        (" ended: ", f" {age(job.changed_at, now)} ago")
        if job.has_ended
        else (" is not running: ", f" for {age(job.changed_at, now)}")
    )
    return Text.assemble(name, verb, phase_text(job.phase), f"{long}: {sanitize(describe_reason(job, now))}")


def _progress(job: StoredJob) -> list[str]:
    if job.progress.batch_id is None:
        return []
    speed = job.progress.rows_per_second
    return [f"batch {job.progress.batch_id:,}", *([f"{format_number(speed)} rows/s"] if speed is not None else [])]


def _attempt_start(job: StoredJob, now: float) -> list[str]:
    """Return when the attempt began. The phase may be younger: it is STARTING until the driver has Spark."""
    if job.report is None or job.lease is None or job.report.attempt != job.lease.attempt:
        return []
    return [f"started {stamp(job.report.started, now)} ({age(job.report.started, now)} ago)"]


def _remarks(job: StoredJob, view: ClusterView, now: float) -> list[str]:
    """Return explanations that the job's reason does not contain."""
    found: list[str] = []
    if job.has_ended:
        return found
    if view.leader is None:
        found.append("no node leads at the moment: the job is not started, stopped or moved until a node leads")
    if job.phase is Phase.BACKOFF and job.state is not None:
        left_s = math.ceil(max(job.state.not_before - now, 0)) if math.isfinite(job.state.not_before) else 0
        found.append(f"the next attempt is due in {left_s} s" if left_s else "the next attempt is due now")
    if job.lease is None and job.phase is Phase.RUNNING:
        found.append("its driver has ended or lost its lease; the leader will react shortly")
    if job.node is not None and job.node not in dict(view.nodes):
        found.append(
            f"node {job.node} is not reachable at the moment; a driver on it keeps running as long as it holds its lease"
        )
    if (
        job.desired_record is not None
        and job.desired_record.desired is not Desired.RUN
        and job.phase in (Phase.PENDING, Phase.RUNNING)
    ):
        found.append(f"a user asked to {job.desired_record.desired} it, and the leader has not acted on the request yet")
    if job.phase is Phase.QUARANTINED:
        found.append(f"for details, run 'holdfast quarantine show {job.id}'")
    return found


def _facts(job: StoredJob, now: float) -> list[tuple[str, str]]:
    submitted = job.submitted_ms / 1000 if job.submitted_ms is not None else None
    facts = [
        ("id", job.id),
        ("phase", job.phase or UNKNOWN),
        *([("desired", _desired_text(job))] if not job.has_ended else []),
        ("submitted", f"{stamp(submitted, now)} ({age(submitted, now)} ago)"),
        *_trust_facts(job, now),
        *_spec_facts(job),
        ("attempts", _attempts(job)),
    ]
    if job.lease is not None:
        driver = f"driver pid {job.lease.driver_pid}" if job.lease.driver_pid is not None else "driver not started yet"
        facts.append(("processes", f"on {job.lease.node}: {driver}, runner pid {job.lease.runner_pid}"))
        if job.lease.isolation:
            facts.append(("isolation", job.lease.isolation))
        facts += _application_facts(job.lease.application)
    elif job.report is not None and job.report.outcome is not None:
        outcome = job.report.outcome
        ended = f"attempt {job.report.attempt} on {job.report.node} {outcome.ending}: {outcome.reason}"
        facts.append(("last", ended + ("" if job.report.dead else " (nothing proves yet that its driver is dead)")))
    if progress := _progress(job):
        facts.append(("progress", ", ".join(progress)))
    facts += lag.facts(job.progress.lag, alive=job.lease is not None)
    return facts + _offset_facts(job.progress)


def _application_facts(application: SparkApplication | None) -> list[tuple[str, str]]:
    if application is None:
        return []
    lost = f", {application.lost} lost" + (f" (last: {application.last_loss})" if application.last_loss else "")
    executors = [f"{application.executors} alive", lost if application.lost else ""]
    if application.decommissioned:
        executors.append(f", {application.decommissioned} decommissioned")
    state = f", {application.state} in YARN" if application.state else ""
    return [("application", f"{application.id}{state}"), ("executors", "".join(executors))]


def _offset_facts(progress: Progress) -> list[tuple[str, str]]:
    """Return one line per source. The query is named if there are several sources and the runner reported the names."""
    named = len(progress.offsets) > 1 and len(progress.offset_queries) == len(progress.offsets)
    queries = [f"{query}: " for query in progress.offset_queries] if named else [""] * len(progress.offsets)
    texts = (
        offset if len(offset) <= OFFSET_SHOWN else f"{offset[:OFFSET_SHOWN]}… (--json has all)" for offset in progress.offsets
    )
    return [("offsets", query + text) for query, text in zip(queries, texts, strict=True)]


def _spec_facts(job: StoredJob) -> list[tuple[str, str]]:
    spec = job.spec
    if spec is None:
        return []
    facts = [
        ("script", f"{shlex.join([spec.script, *spec.arguments])} (sha256 {spec.blob[:12]})"),
        ("slots", str(spec.slots)),
        ("restart", spec.restart + (f"; {NO_PROGRESS_RULE}" if spec.restart_is_default else "")),
        *([("schedule", str(spec.schedule))] if spec.schedule is not None else []),
    ]
    facts += [("conf", f"{key}={value}") for key, value in spec.conf]
    if spec.py_files:
        facts.append(("py-files", ", ".join(name for name, _ in spec.py_files)))
    return facts


def _version_facts(job: StoredJob, versions: Sequence[SpecVersion], now: float) -> list[tuple[str, str]]:
    """Return one line per version, nothing if the job was never upgraded."""
    roles = job.state.versions if job.state is not None else None
    marks = {roles.current: "current", roles.rejected: "failed its trial"} if roles is not None else {}
    if roles is not None and roles.on_trial:
        marks[roles.current] = f"on trial until its first batch; if it fails, version {roles.fallback} is started again"
    facts = []
    for version in versions if len(versions) > 1 else []:
        script = f"{version.spec.script} (sha256 {version.spec.blob[:12]})" if version.spec is not None else "cannot be read"
        made = f"{stamp(version.created_ms / 1000, now)}{f' by {version.submitter}' if version.submitter else ''}"
        mark = f": {marks[version.number]}" if version.number in marks else ""
        facts.append((f"version {version.number}", f"{script}, {made}{mark}"))
    return facts


def _trust_facts(job: StoredJob, now: float) -> list[tuple[str, str]]:
    trust = job.desired_record.trust if job.desired_record is not None else None
    if trust is None:
        return []
    findings = format_count(len(trust.findings), "finding")
    return [("trusted", f"{findings} of the checkpoint, by {trust.by or UNKNOWN} at {stamp(trust.wall, now)}: {trust.reason}")]


def _desired_text(job: StoredJob) -> str:
    if job.desired_record is None:
        return UNKNOWN
    forced = " (forced: the next attempt does not wait for proof that the last one is dead)" if job.desired_record.force else ""
    return job.desired_record.desired + forced


def _attempts(job: StoredJob) -> str:
    failures = job.state.failures.in_a_row if job.state is not None else 0
    in_a_row = f", failures in a row: {failures}" if failures else ""
    return f"{job.attempt}, restarts: {job.restarts}{in_a_row}" if job.attempt else "none" if job.has_ended else "none yet"
