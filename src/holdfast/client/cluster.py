"""`Cluster`: the operations on a cluster, for scripts, notebooks and the command line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.client.callbacks import Callbacks, Transfer

if TYPE_CHECKING:
    from holdfast.client.cluster_status import ClusterStatus
    from holdfast.client.connection.target import Target
    from holdfast.client.deployment.apply import JobChange
    from holdfast.client.deployment.job_request import JobRequest
    from holdfast.client.deployment.upgrade import ScheduleChange, UpgradeResult
    from holdfast.client.jobs.job_control import ControlResult, Decide
    from holdfast.client.jobs.listing import JobDetails, JobEvent, JobList
    from holdfast.client.jobs.quarantine import QuarantinedJob
    from holdfast.client.jobs.waiting import Until
    from holdfast.client.logs.log_copies import LogCopies
    from holdfast.client.logs.log_follower import LogOutput
    from holdfast.kafka.check.operator_choice import OffsetChoice
    from holdfast.model.schedule.due_times import Schedule
    from holdfast.savepoint import Manifest
    from holdfast.zk.records.stored_job import StoredJob

TRIAL_S = 300.0
"""Default time that a new version has to commit its first batch."""


def connect(
    dir: str | Path | None = None,
    *,
    connect: str | None = None,
    cluster: str | None = None,
    on_note: Callable[[str], None] | None = None,
    on_change: "Callable[[StoredJob], None] | None" = None,
    on_transfer: Callable[[Transfer], None] | None = None,
) -> "Cluster":
    """Find a cluster and return an object to work with it.

    The cluster is the first of: `dir`, the directory of a cluster that `holdfast up` started; `connect`, ZooKeeper as
    `host:port,host:port/path`, with the cluster's name in `cluster`; the environment variable HOLDFAST_DIR; HOLDFAST_CONNECT
    with HOLDFAST_CLUSTER; the file `holdfast.toml` in the working directory; the directory `~/.holdfast`.

    `on_note` receives sentences about retries and intermediate steps, `on_change` a job whose phase or reason changed during
    `wait`, and `on_transfer` the progress of uploads and copies. Nothing is printed.

    Raise Refused if no cluster is found. ZooKeeper is not contacted yet.
    """
    from holdfast.client.connection.target import find_target

    target = find_target(Path(dir) if dir is not None else None, connect, cluster)
    defaults = Callbacks()
    return Cluster(
        target,
        Callbacks(on_note or defaults.note, on_change or defaults.job_changed, on_transfer or defaults.transfer),
    )


class Cluster:
    """Cluster of nodes that run jobs.

    Every method blocks until it has a result, and may be called from any thread and inside a running event loop. Each call
    opens a new ZooKeeper session, so no connection stays open between calls and a `Cluster` needs no closing; it is a
    context manager only for convenience.

    A job argument is the job's name, its id, the first characters of its id (at least 2), or a job object.

    Methods raise subclasses of `holdfast.errors.HoldfastError`: `Refused` if the request cannot be carried out, `Unavailable`
    if the same call may succeed later, and `OutcomeUnknown` if a reply was lost and the caller has to check the result.
    """

    def __init__(self, target: "Target", callbacks: Callbacks = Callbacks()) -> None:  # noqa: B008 -- frozen
        self._target = target
        self._callbacks = callbacks

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: no connection stays open between calls."""

    def __repr__(self) -> str:
        return f"Cluster({self._target.cluster!r} at {self._target.zookeeper.connect_string})"

    @property
    def target(self) -> "Target":
        """Name of the cluster and address of its ZooKeeper."""
        return self._target

    # Read

    def jobs(self, *, ended: bool = False) -> "list[StoredJob]":
        """Return the live jobs by name; with `ended` also the ended jobs, the last submitted first."""
        return list(self.list_jobs(ended=ended).jobs)

    def list_jobs(self, *, ended: bool = False) -> "JobList":
        """Return the same jobs as `jobs`, together with the current leader."""
        from holdfast.client.jobs.listing import list_jobs

        return list_jobs(self._target, include_ended=ended)

    def job_names(self) -> list[str]:
        """Return the names of the live jobs. This is faster than `jobs`, for example for completion."""
        from holdfast.client.connection.read import read_with_retry

        return read_with_retry(self._target, lambda client: client.children(self._target.paths.names))

    def job(self, job: "str | StoredJob") -> "StoredJob":
        """Return the current state of a job. Raise Refused if it does not exist."""
        from holdfast.client.jobs.listing import get_job

        return get_job(self._target, _reference(job))

    def details(self, job: "str | StoredJob") -> "JobDetails":
        """Return a job with its versions, the status of its checkpoint and the cluster's nodes."""
        from holdfast.client.jobs.listing import read_details

        return read_details(self._target, _reference(job))

    def events(self, job: "str | StoredJob | None" = None) -> "list[JobEvent]":
        """Return the last changes of a job, or of all jobs, the oldest first. Each job keeps its 20 last events."""
        from holdfast.client.jobs.listing import list_events

        return list_events(self._target, _reference(job) if job is not None else None)

    def status(self) -> "ClusterStatus":
        """Return the leader, the nodes and the health of the ZooKeeper servers."""
        from holdfast.client.cluster_status import read_status

        return read_status(self._target)

    # Logs

    def logs(
        self, job: "str | StoredJob", *, follow: bool = False, attempt: int | None = None, tail: int | None = None
    ) -> Iterator[str]:
        """Yield the lines that a job has printed, without line ends.

        `attempt` selects an attempt (default: the last one), `tail` limits the output to the last lines. With `follow`, the
        iterator continues through restarts until the job ends; closing it stops following.
        """
        from holdfast.client.logs.log_follower import split_lines

        return split_lines(self.log_output(job, follow=follow, attempt=attempt, tail=tail))

    def log_output(
        self, job: "str | StoredJob", *, follow: bool = False, attempt: int | None = None, tail: int | None = None
    ) -> "Iterator[LogOutput]":
        """Yield the same output as `logs`, as undecoded bytes with the attempt that printed them."""
        from holdfast.client.connection.blocking import iterate_blocking
        from holdfast.client.logs.log_follower import read_logs

        note, text = self._callbacks.note, _reference(job)
        return iterate_blocking(lambda: read_logs(self._target, text, attempt=attempt, tail=tail, follow=follow, on_note=note))

    def copy_logs(self, directory: str | Path, *, on_copy: Callable[[str], None] = lambda _name: None) -> "LogCopies":
        """Copy the events and logs of the whole cluster into a directory, at most 1 GB. `on_copy` receives each log's name.

        A source that cannot be read becomes a note in the result. Raise Unavailable or Refused if nothing can be copied.
        """
        from holdfast.client.connection.blocking import run_blocking
        from holdfast.client.logs.cluster_logs import copy_cluster
        from holdfast.client.logs.log_copies import LogCopies

        copies = LogCopies(Path(directory), on_copy)
        run_blocking(lambda: copy_cluster(self._target, copies))
        return copies

    # Submit and upgrade

    def submit(
        self,
        script: str | Path,
        *,
        name: str | None = None,
        arguments: Sequence[str] = (),
        conf: Mapping[str, object] | None = None,
        py_files: Sequence[str | Path] = (),
        restart: str | None = None,
        slots: int = 1,
        every: str | float | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        catch_up: str | None = None,
        park_after: int | None = None,
        restore: "str | StoredJob | Manifest | None" = None,
        replaces: "Sequence[str | StoredJob]" = (),
        request_id: str | None = None,
    ) -> "StoredJob":
        """Submit a PySpark program, or a declarative pipeline (`.yml`), and return the job. The cluster then keeps it running.

        `name` defaults to the script's name. `conf` has Spark settings, `py_files` the `.py` and `.zip` files that the script
        imports. `restart` is the strategy after a failure: `never`, `exponential`, `fixed:N:DELAY` or `rate:N:PERIOD:DELAY`.
        Without it, the strategy is `exponential`, but a script that fails three times before its first batch fails the job.

        With `every`, such as `10m`, or `cron`, such as `*/5 * * * *`, the job runs by a schedule. `timezone` is the time zone
        of `cron` (default: UTC). `catch_up` says what happens after times that passed while no run could start: `none`, `one`
        run (the default) or `all`. `park_after` parks the job after that many failed runs in a row.

        `restore` is a savepoint, or a job that has stopped or ended, whose checkpoint the new job continues. The jobs in
        `replaces` are stopped and cancelled first. `request_id` makes the call idempotent: submitting again with the same
        id returns the existing job.

        Raise Refused if the request is invalid or the name is taken.
        """
        from holdfast.client.deployment.job_request import check_request
        from holdfast.model.schedule.due_times import make_schedule

        request = check_request(
            Path(script),
            name=name,
            restart_strategy=restart,
            slots=slots,
            arguments=tuple(arguments),
            conf=_settings(conf),
            py_files=[Path(file) for file in py_files],
            schedule=make_schedule(every=every, cron_text=cron, timezone=timezone, catch_up=catch_up, park_after=park_after),
        )
        return self.submit_request(request, restore=restore, replaces=replaces, request_id=request_id)

    def submit_request(
        self,
        request: "JobRequest",
        *,
        restore: "str | StoredJob | Manifest | None" = None,
        replaces: "Sequence[str | StoredJob]" = (),
        request_id: str | None = None,
    ) -> "StoredJob":
        """Submit a request that `check_request` has checked, like `submit`."""
        from holdfast.client.deployment.restore import plan_restore
        from holdfast.client.deployment.script_warnings import report_script_warnings
        from holdfast.client.deployment.submit import submit_job

        report_script_warnings(request, dict(request.conf), self._callbacks)
        source = _restore_reference(restore) if restore is not None else None
        plan = plan_restore(self._target, source, [_reference(job) for job in replaces], self._callbacks)
        result = submit_job(self._target, request, self._callbacks, request_id=request_id, restore=plan)
        if not result.is_new:
            self._callbacks.note(f"request '{request_id}' was carried out before; this is the job that it submitted")
        if not result.has_leader:
            self._callbacks.note("no node leads at the moment; the job starts as soon as a node does")
        return result.job

    def upgrade(
        self,
        job: "str | StoredJob",
        script: str | Path,
        *,
        arguments: Sequence[str] = (),
        conf: Mapping[str, object] | None = None,
        py_files: Sequence[str | Path] = (),
        restart: str | None = None,
        every: str | float | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        catch_up: str | None = None,
        park_after: int | None = None,
        trial_s: float = TRIAL_S,
    ) -> "UpgradeResult":
        """Give a job another program, which continues from the same checkpoint.

        Arguments, settings, files and parts of the schedule that are left out stay as they are. The job stops at a batch
        boundary. If the new version does not commit a batch within `trial_s` seconds, the previous version is started again.
        Raise Refused if the job has ended or is in quarantine.
        """
        from holdfast.client.deployment.job_request import check_upgrade
        from holdfast.model.schedule.due_times import change_schedule

        request = check_upgrade(
            Path(script),
            restart_strategy=restart,
            arguments=tuple(arguments),
            conf=_settings(conf),
            py_files=[Path(file) for file in py_files],
        )
        options = {"cron_text": cron, "timezone": timezone, "catch_up": catch_up}

        def schedule(current: "Schedule | None") -> "Schedule | None":
            return change_schedule(current, every=every, park_after=park_after, **options)

        return self.upgrade_request(job, request, restart=restart, trial_s=trial_s, schedule=schedule)

    def upgrade_request(
        self,
        job: "str | StoredJob",
        request: "JobRequest",
        *,
        restart: str | None = None,
        trial_s: float = TRIAL_S,
        schedule: "ScheduleChange | None" = None,
    ) -> "UpgradeResult":
        """Upgrade a job to a request that `check_upgrade` has checked, like `upgrade`."""
        from holdfast.client.deployment.upgrade import keep_schedule, upgrade_job
        from holdfast.client.jobs.job_control import refuse_uncontrollable

        current = self.job(job)
        refuse_uncontrollable(current)
        return upgrade_job(
            self._target,
            current,
            request,
            self._callbacks,
            restart=restart,
            trial_s=trial_s,
            schedule=schedule or keep_schedule,
        )

    def wait_for_upgrade(self, upgrade: "UpgradeResult", *, timeout_s: float | None = None) -> "StoredJob":
        """Wait until the new version has committed its first batch. Raise WaitFailed if the previous version is back.

        Return at once if nothing changed or the job is stopped.
        """
        from holdfast.client.deployment.upgrade import is_stopped, wait_until_accepted

        if upgrade.version is None or is_stopped(upgrade.job):
            return upgrade.job
        return wait_until_accepted(self._target, upgrade.job, upgrade.version, self._callbacks, timeout_s=timeout_s)

    def compare(self, directory: str | Path) -> "list[JobChange]":
        """Return the changes that make the jobs equal to a directory of job files. Raise Refused if a file is invalid."""
        from holdfast.client.deployment.apply import compare
        from holdfast.client.deployment.job_file import read_directory
        from holdfast.client.deployment.script_warnings import report_script_warnings

        changes = compare(read_directory(Path(directory)), self.jobs())
        for request in (change.new_request for change in changes):
            if request is not None:
                report_script_warnings(request, dict(request.conf), self._callbacks)
        return changes

    def apply(self, change: "JobChange") -> "StoredJob | None":
        """Carry out one change that `compare` returned. Return the submitted job, or else the job's state before the change."""
        from holdfast.client.deployment.apply import carry_out

        return carry_out(self._target, change, self._callbacks)

    # Control

    def wait(
        self,
        job: "str | StoredJob | ControlResult",
        until: "Until | None" = None,
        *,
        timeout_s: float | None = None,
        after_attempt: int | None = None,
    ) -> "StoredJob":
        """Wait until a job reaches a condition, and return the job.

        `until` is one of
        - `running`: an attempt runs, and its driver has Spark; with `after_attempt`, a later attempt than that one;
        - `first_batch`: the first batch is committed, or the job finished;
        - `stopped`: the job has stopped, or ended;
        - `ended`: the job finished, failed or was cancelled.

        It may be left out for the result of `stop`, `cancel`, `restart` or `resume`: the default is the requested effect.
        Raise WaitFailed if the job can no longer reach the condition by itself, and WaitTimeout after `timeout_s` seconds.
        """
        from holdfast.client.jobs.job_control import ControlResult
        from holdfast.client.jobs.waiting import condition_named, wait_for_job

        if isinstance(job, ControlResult):
            condition = job.condition if until is None else condition_named(until, after_attempt=after_attempt)
            found = job.job
        else:
            condition = condition_named(until or "running", after_attempt=after_attempt)
            found = self.job(job) if isinstance(job, str) else job
        return wait_for_job(self._target, found, condition, self._callbacks, timeout_s=timeout_s)

    def stop(self, job: "str | StoredJob") -> "ControlResult":
        """Stop a job at its next batch boundary. `resume` starts it again. Raise Refused if it has ended."""
        from holdfast.client.jobs.job_control import decide_stop

        return self._control(job, decide_stop)

    def cancel(self, job: "str | StoredJob") -> "ControlResult":
        """Kill a job's driver at once. A cancelled job cannot be resumed. Raise Refused if it has ended."""
        from holdfast.client.jobs.job_control import decide_cancel

        return self._control(job, decide_cancel)

    def restart(self, job: "str | StoredJob", *, force: bool = False) -> "ControlResult":
        """Stop the running attempt at its next batch boundary, and start another.

        `force` starts the next attempt even though nothing proves that the previous one is dead. Use it only if you know that
        the previous machine is off.
        """
        from holdfast.client.jobs.job_control import decide_restart

        return self._control(job, lambda current: decide_restart(current, force=force))

    def resume(
        self,
        job: "str | StoredJob",
        *,
        offsets: "Literal['keep', 'earliest', 'latest'] | str | Path | Mapping[str, Mapping[int, int]] | None" = None,
        trust_checkpoint: bool = False,
        reason: str = "",
    ) -> "ControlResult":
        """Start a job that is stopped or parked. A job that is neither is not changed.

        `offsets` says where a job continues that is parked because of its Kafka offsets; see `choose_offsets`.

        `trust_checkpoint` starts a job that is parked because of a damaged checkpoint, although nothing was repaired: you have
        looked at the findings, and `reason` says why it may be used. It covers only these findings; new damage parks the job
        again. User, time and reason are recorded. Raise Refused if there is no such damage, or no reason.
        """
        from holdfast.client.jobs.job_control import decide_resume

        if trust_checkpoint or reason:
            return self._resume_with_trust(job, trust=trust_checkpoint, reason=reason, has_offsets=offsets is not None)
        if offsets is not None:
            self.choose_offsets(job, offsets)
        return self._control(job, decide_resume)

    def _resume_with_trust(self, job: "str | StoredJob", *, trust: bool, reason: str, has_offsets: bool) -> "ControlResult":
        import time

        from holdfast.client.connection.identity import current_user
        from holdfast.client.jobs.job_control import decide_trusted_resume
        from holdfast.errors import Refused

        if not (trust and reason.strip()):
            raise Refused("trust_checkpoint and reason belong together: say why the checkpoint may be used")
        if has_offsets:
            raise Refused("trust_checkpoint cannot be combined with offsets: they answer different findings")
        by, now = current_user(), time.time()
        return self._control(job, lambda current: decide_trusted_resume(current, by=by, reason=reason, now=now))

    def choose_offsets(
        self,
        job: "str | StoredJob",
        offsets: "Literal['keep', 'earliest', 'latest'] | str | Path | Mapping[str, Mapping[int, int]]",
    ) -> "OffsetChoice":
        """Choose the Kafka offsets from which a parked job continues when it is resumed. A savepoint is made first.

        `offsets` is `keep`, `earliest`, `latest`, a JSON file, or a mapping `{topic: {partition: offset}}`. It applies to the
        partitions with a problem. Raise Refused if the job is not parked because of its offsets.
        """
        from holdfast.client.jobs.kafka_offsets import choose_offsets

        return choose_offsets(self._target, self.job(job), offsets, self._callbacks)

    def _control(self, job: "str | StoredJob", decide: "Decide") -> "ControlResult":
        from holdfast.client.jobs.job_control import control_job

        return control_job(self._target, _reference(job), decide)

    # Savepoints

    def savepoint(self, job: "str | StoredJob") -> "Manifest":
        """Copy a job's checkpoint, without pausing the job. Raise Refused if it has committed no batch yet."""
        from holdfast.client.jobs.savepoints import make_savepoint

        return make_savepoint(self._target, self.job(job), self._callbacks)

    def savepoints(self, job: "str | StoredJob | None" = None) -> "list[Manifest]":
        """Return the savepoints of a job, or of all jobs, the oldest first."""
        from holdfast.client.jobs.savepoints import list_savepoints

        return list_savepoints(self._target, _reference(job) if job is not None else None)

    def remove_savepoint(self, *ids: str) -> None:
        """Remove savepoints. Raise Refused, and remove none, if one of them does not exist."""
        from holdfast.client.jobs.savepoints import remove_savepoints

        remove_savepoints(self._target, ids)

    def prune_savepoints(self, job: "str | StoredJob", *, keep: int) -> "list[Manifest]":
        """Remove all savepoints of a job except the newest `keep`, and return the removed ones."""
        from holdfast.client.jobs.savepoints import remove_older_savepoints

        return remove_older_savepoints(self._target, _reference(job), keep)

    # Quarantine

    def quarantine(self) -> "list[QuarantinedJob]":
        """Return the jobs that were set aside because they cannot be read."""
        from holdfast.client.jobs.quarantine import list_quarantine

        return list_quarantine(self._target)

    def quarantined_job(self, job: "str | StoredJob") -> "QuarantinedJob":
        """Return one job in quarantine. Raise Refused if it is not there."""
        from holdfast.client.jobs.quarantine import find_quarantined_job

        return find_quarantined_job(self._target, _reference(job))

    def release(self, job: "QuarantinedJob", *, force: bool = False) -> None:
        """Let a quarantined job run again. Raise Refused as long as a part of it cannot be read.

        `force` releases it even if the request to cancel it may have been lost.
        """
        from holdfast.client.jobs.quarantine import release_quarantined_job

        release_quarantined_job(self._target, job.id, force=force)

    def discard(self, job: "QuarantinedJob") -> None:
        """Delete the records of a quarantined job. Its checkpoint stays in the storage."""
        from holdfast.client.jobs.quarantine import discard_quarantined_job

        discard_quarantined_job(self._target, job.id)


def _reference(job: "str | StoredJob") -> str:
    return job if isinstance(job, str) else job.id


def _restore_reference(restore: "str | StoredJob | Manifest") -> str:
    return restore if isinstance(restore, str) else restore.id


def _settings(conf: Mapping[str, object] | None) -> dict[str, str]:
    """Convert setting values to text as Spark spells them: `true` and `false` in lower case."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (conf or {}).items()}
