"""Execution of a driver: claim the checkpoint, download the code, start the driver, wait for its end, classify the result."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from holdfast.atomic_file import write_atomically
from holdfast.clock import Clock
from holdfast.driver_protocol.control_files import request_stop
from holdfast.errors import Conflict, Refused, Unavailable
from holdfast.log import Log
from holdfast.model.checkpoint_trust import CheckpointTrust
from holdfast.model.codec import encode
from holdfast.model.job import Ending, Outcome, Progress, Report, SparkApplication, Spec
from holdfast.model.unreported_outcome import covers_earlier_outcomes
from holdfast.runner import process_file
from holdfast.runner.attempt_layout import CONTROL_DIRECTORY, DRIVER_LOG, OUTCOME_FILE, PROCESSES_FILE, SESSION_FILE
from holdfast.runner.execution.attempt_checkpoint import AttemptCheckpoint
from holdfast.runner.execution.classify import classify_exit
from holdfast.runner.execution.control_reader import ControlReader
from holdfast.runner.execution.driver_command import NO_NODE_RESOURCES, DriverCommand, NodeResources
from holdfast.runner.execution.earlier_outcomes import EarlierOutcomes, EndedBeforeStart
from holdfast.runner.execution.master_check import check_master, spark_master
from holdfast.runner.execution.memory_limit import kernel_oom_kills, memory_limit_bytes, wait_until_exceeded
from holdfast.runner.execution.watchdog_client import WatchdogClient
from holdfast.runner.job_phases import ReadPhase
from holdfast.runner.lease import AttemptAssignment
from holdfast.runner.watchdog.json_socket import DEADLINE_PASSED
from holdfast.storage import BlobMissing, CheckpointClaim, Storage
from holdfast.storage.location import parse_location
from holdfast.zk.session import session_file
from holdfast.zk.session.client import SessionId
from holdfast.zk.session.connection_settings import ConnectionSettings

ACCESS_ATTEMPTS_MAX = 5
ACCESS_RETRY_S = 2.0
INFRASTRUCTURE_REFUSALS = ("the deadline", "cannot start a process")
"""Beginnings of those refusals of a watchdog that have nothing to do with the job."""


class LocalDriverExecution:
    """`interfaces.DriverExecution` with real processes on this machine."""

    def __init__(
        self,
        assignment: AttemptAssignment,
        directory: Path,
        *,
        cluster: str,
        storage: Storage,
        ensemble: ConnectionSettings,
        clock: Clock,
        log: Log,
        read_phase: ReadPhase,
        resources: NodeResources = NO_NODE_RESOURCES,
    ) -> None:
        self._assignment = assignment
        self._directory = directory
        self._cluster = cluster
        self._storage = storage
        self._ensemble = ensemble
        self._clock = clock
        self._log = log
        self._read_phase = read_phase
        self._resources = resources
        self._deadline = float("-inf")
        self._watchdog: WatchdogClient | None = None
        self._kill_task: asyncio.Task[None] | None = None
        self._checkpoint: AttemptCheckpoint | None = None
        self._kill_cause: Outcome | None = None
        self._stop_requested = False
        self._outcomes_read = False
        """True after the outcomes of earlier attempts have certainly been read."""
        self._control = ControlReader(directory / CONTROL_DIRECTORY)
        self.driver_pid: int | None = None
        self.isolation = ""
        self._was_ready = False

    # One run of the driver

    async def run_driver(self, spec: Spec, previous_report: Report | None, trust: CheckpointTrust | None = None) -> Outcome:
        outcome = await self._run_driver(spec, previous_report, trust)
        is_allowed = self._outcomes_read or not covers_earlier_outcomes(outcome)
        return outcome if is_allowed else Outcome(Ending.LOST, outcome.reason)

    async def _run_driver(self, spec: Spec, previous_report: Report | None, trust: CheckpointTrust | None) -> Outcome:
        try:
            earlier = EarlierOutcomes(self._claim, previous_report, spec, str(self._storage.location), self._log)
            earlier.require_unfinished()
            await self._read_claimed_root(earlier, trust)
            command = DriverCommand(self._assignment, spec, self._directory, self._storage, resources=self._resources)
            checkpoint = self._checkpoint = self._open_checkpoint(command, earlier)
            await self._prepare(spec, command, checkpoint, previous_report, trust)
            memory_limit = memory_limit_bytes(spec)
            return await self._execute(spec, command, checkpoint, memory_limit)
        except EndedBeforeStart as ended:
            self._outcomes_read = self._outcomes_read or ended.is_earlier_outcome
            return ended.outcome
        except Unavailable as error:
            return Outcome(Ending.LOST, f"the driver could not be started on {self._assignment.node}: {error}")
        except (Refused, Conflict) as error:
            return self._kill_cause or Outcome(self._classify_refusal(error), str(error))
        except OSError as error:
            problem = error.strerror or error
            return Outcome(Ending.LOST, f"the driver could not be started on {self._assignment.node}: {problem}")

    async def _read_claimed_root(self, earlier: EarlierOutcomes, trust: CheckpointTrust | None) -> None:
        """Read the outcomes in the root that an earlier attempt has claimed. An upgrade may have named another root since."""
        self._outcomes_read = not earlier.may_exist
        if earlier.may_exist or earlier.claimed_root:
            await self._wait_for_storage()
        if earlier.may_exist and earlier.claimed_root:
            await earlier.require_none(earlier.claimed_root, version=self._assignment.version, trust=trust)
            self._outcomes_read = True

    async def _prepare(
        self,
        spec: Spec,
        command: DriverCommand,
        checkpoint: AttemptCheckpoint,
        previous_report: Report | None,
        trust: CheckpointTrust | None,
    ) -> None:
        # Before anything else that may fail: only LOST may be reported before the outcomes have been read.
        await checkpoint.require_no_unreported_outcome(trust)
        self._outcomes_read = True
        self._require_not_killed()
        await check_master(spec, os.environ)
        # The code comes before the claim: if the storage is not mounted here, a claim would land in the empty mount point.
        await self._fetch_code(command)
        await checkpoint.claim()
        self._require_not_killed()
        await checkpoint.verify(previous_report, trust)
        self._require_not_killed()

    def _open_checkpoint(self, command: DriverCommand, earlier: EarlierOutcomes) -> AttemptCheckpoint:
        storage = str(self._storage.location)
        return AttemptCheckpoint(
            command.checkpoint,
            storage,
            self._claim,
            earlier,
            self._control,
            self._read_phase,
            self._log,
            version=self._assignment.version,
        )

    @property
    def _claim(self) -> CheckpointClaim:
        assignment = self._assignment
        return CheckpointClaim(
            cluster=self._cluster,
            job=assignment.job,
            attempt=assignment.attempt,
            node=assignment.node,
            nonce=assignment.nonce,
        )

    async def _wait_for_storage(self) -> None:
        """Wait until a directory is mounted: an empty mount point shows no outcomes. Other storages cannot look empty."""
        if parse_location(self._storage.location).is_directory:
            await self._retry_access(self._storage.require_mounted)

    async def _fetch_code(self, command: DriverCommand) -> None:
        try:
            await self._retry_access(command.fetch_code)
        except BlobMissing as error:
            outcome = Outcome(Ending.UNSTARTABLE, f"the job's code is missing from the storage: {error}")
            raise EndedBeforeStart(outcome) from error

    async def _retry_access(self, access: Callable[[], None]) -> None:
        """Call a function that blocks, and repeat it while it raises Unavailable. Raises the last error."""
        for attempts_left in reversed(range(ACCESS_ATTEMPTS_MAX)):
            self._require_not_killed()
            try:
                await asyncio.to_thread(access)
                return
            except Unavailable as error:
                if not attempts_left:
                    raise
                self._log.warning("storage not available yet", problem=str(error))
                await asyncio.sleep(ACCESS_RETRY_S)

    def _require_not_killed(self) -> None:
        if self._kill_cause is not None:
            raise EndedBeforeStart(self._kill_cause)

    async def _execute(
        self, spec: Spec, command: DriverCommand, checkpoint: AttemptCheckpoint, memory_limit: int | None
    ) -> Outcome:
        oom_kills_before = kernel_oom_kills()
        output = self._directory / DRIVER_LOG
        watchdog = self._watchdog = await WatchdogClient.start_watchdog(
            nonce=self._assignment.nonce, output=output, deadline=self._deadline
        )
        try:
            self._save_processes(watchdog)
            await self._start(watchdog, command)
            status, too_late = await self._wait_for_exit(watchdog, checkpoint, memory_limit)
            await watchdog.tree_gone
            await checkpoint.save_queries(final=True)
            self._discard_archive_after_crash(watchdog, command.cds_archive)
            return self._classify(
                watchdog,
                status,
                too_late=too_late,
                kernel_killed_for_memory=kernel_oom_kills() > oom_kills_before,
                master=spark_master(spec),
            )
        finally:
            await watchdog.close()

    def _save_processes(self, watchdog: WatchdogClient) -> None:
        self.isolation = watchdog.isolation
        if watchdog.isolation_problem:
            self._log.info("no namespace", isolation=watchdog.isolation, problem=watchdog.isolation_problem)
        try:
            if watchdog.watchdog_process is not None:
                process_file.save(self._directory / PROCESSES_FILE, watchdog.watchdog_process, watchdog.isolated)
        except OSError as error:
            # If this runner dies while the watchdog is paused, the agent finds only the processes with the mark.
            self._log.warning("processes not written", problem=str(error))

    async def _start(self, watchdog: WatchdogClient, command: DriverCommand) -> None:
        watchdog.set_deadline(self._deadline)
        self._require_not_killed()
        environment = command.build_environment(os.environ)
        self.driver_pid = await watchdog.start_driver(command.arguments, environment, command.work_directory)
        self._log.info("driver started", pid=self.driver_pid)

    async def _wait_for_exit(
        self, watchdog: WatchdogClient, checkpoint: AttemptCheckpoint, memory_limit: int | None
    ) -> tuple[int, bool]:
        """Return the driver's wait status, and whether the deadline had passed when the driver ended."""
        tasks = [
            asyncio.ensure_future(checkpoint.keep_saving_queries()),
            asyncio.ensure_future(checkpoint.keep_answering_claim_requests()),
        ]
        if memory_limit is not None:
            tasks.append(asyncio.ensure_future(self._enforce_memory_limit(memory_limit)))
        status = await watchdog.driver_exited
        # Compare now: until the rest of the tree is gone, seconds may pass in which the lease is confirmed again.
        too_late = watchdog.kill_reason == DEADLINE_PASSED or self._clock.boottime() >= self._deadline
        for task in tasks:
            task.cancel()
        return status, too_late

    async def _enforce_memory_limit(self, limit: int) -> None:
        self.kill(await wait_until_exceeded(self._assignment.nonce, limit))

    def _classify(
        self, watchdog: WatchdogClient, status: int, *, too_late: bool, kernel_killed_for_memory: bool, master: str
    ) -> Outcome:
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if self._kill_cause is not None and killed:
            return self._kill_cause
        if killed and too_late:
            return Outcome(Ending.LOST, "the lease could not be confirmed before its deadline, so the driver was killed")
        if watchdog.watchdog_lost and killed:
            return Outcome(Ending.LOST, "the watchdog was killed, and the driver with it")
        return classify_exit(
            status=status,
            record=self._control.exit_record(),
            output_tail=watchdog.output_tail(),
            stop_requested=self._stop_requested,
            kernel_killed_for_memory=kernel_killed_for_memory,
            master=master,
            application=self._control.application_status(),
        )

    def _classify_refusal(self, error: Refused | Conflict) -> Ending:
        """Return LOST if the start came too late or the machine had no process to spare: neither is the job's fault."""
        watchdog = self._watchdog
        not_the_job = watchdog is not None and (watchdog.kill_reason or str(error).startswith(INFRASTRUCTURE_REFUSALS))
        return Ending.LOST if not_the_job else Ending.UNSTARTABLE

    def _discard_archive_after_crash(self, watchdog: WatchdogClient, archive: Path | None) -> None:
        archives = self._resources.cds_archives
        if archives is None or archive is None:
            return
        if archives.discard_after_crash(archive, watchdog.output_tail()):
            self._log.warning("class archive removed", problem=f"Java has crashed, and {archive} may be the cause")

    # Commands of the runner

    def set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if self._watchdog is not None:
            self._watchdog.set_deadline(deadline)

    def request_stop(self) -> None:
        self._stop_requested = True
        request_stop(self._directory / CONTROL_DIRECTORY)
        if self.driver_pid is None:
            self.kill(Outcome(Ending.STOPPED, "the stop request came before the driver was started"))

    def send_sigterm(self) -> None:
        if self._watchdog is not None:
            self._watchdog.signal_driver(signal.SIGTERM)

    def kill(self, cause: Outcome) -> None:
        self._kill_cause = self._kill_cause or cause
        if self._watchdog is not None and self._kill_task is None:
            self._kill_task = asyncio.ensure_future(self._watchdog.kill_tree())

    # State for the runner

    @property
    def claimed_checkpoint(self) -> str:
        return self._checkpoint.claimed_root if self._checkpoint is not None else ""

    @property
    def is_ready(self) -> bool:
        self._was_ready = self._was_ready or self._control.is_ready()
        return self._was_ready

    @property
    def note(self) -> str:
        checkpoint_note = self._checkpoint.note if self._checkpoint is not None else ""
        application_note = self._control.application_status().note
        notes = (checkpoint_note, application_note, self._control.query_note(), self._control.kafka_note())
        return "; ".join(filter(None, notes))

    @property
    def batch_s(self) -> float:
        return self._control.batch_s()

    @property
    def has_queries(self) -> bool:
        return bool(self._control.started_queries())

    @property
    def application(self) -> SparkApplication | None:
        return self._control.application()

    def progress(self) -> Progress | None:
        return self._control.progress()

    def save_session(self, session: SessionId) -> None:
        try:
            session_file.save_session(self._directory / SESSION_FILE, self._ensemble, session)
        except OSError as error:
            # If this runner crashes, ZooKeeper has to wait for the session to expire.
            self._log.warning("session not written", problem=str(error))

    async def save_outcome(self, outcome: Outcome) -> None:
        try:
            write_atomically(self._directory / OUTCOME_FILE, encode(outcome))
        except OSError as error:
            self._log.warning("outcome not written", problem=str(error))
        if self._checkpoint is not None:
            await self._checkpoint.save_outcome(outcome)
