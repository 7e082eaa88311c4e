"""Life cycle of one attempt, from taking the lease to releasing it.

The driver may live until a deadline. Committed heartbeats extend the deadline, and so do promises of all nodes of the failsafe
set. A lost connection alone changes nothing. If the session ends while promises are in force, a new session takes the lease
again. The watchdog enforces the deadline, so a delay in this process does no harm.
"""

import asyncio

from holdfast.clock import Clock
from holdfast.errors import Conflict, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.log import Log
from holdfast.model.codec import MalformedRecord, NewerSchema, decode
from holdfast.model.identifiers import NodeId
from holdfast.model.job import Desired, DesiredRecord, Ending, Outcome
from holdfast.runner.failsafe_nodes import FailsafeNodes
from holdfast.runner.interfaces import DriverExecution, FailsafePeers
from holdfast.runner.lease import AttemptAssignment, LeaseHolder, LeaseLost, TakenLease
from holdfast.runner.lease_session import LeaseSession, includes
from holdfast.runner.stop_escalation import StopEscalation
from holdfast.runner.timeouts import DEFAULT_TIMEOUTS, AttemptTimeouts
from holdfast.runner.trial import Trial
from holdfast.wakeup import Wakeup
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ClientFactory, ConnectionState, NoNode
from holdfast.zk.session.timing import Timing


class Runner:
    """Owner of one attempt: holds its lease, supervises its driver and reports its outcome."""

    lease_holder_class = LeaseHolder
    _session: LeaseSession
    """Session that holds the lease; `run` opens it."""

    def __init__(
        self,
        assignment: AttemptAssignment,
        paths: Paths,
        *,
        connect: ClientFactory,
        clock: Clock,
        timing: Timing,
        driver: DriverExecution,
        peers: FailsafePeers,
        log: Log,
        timeouts: AttemptTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._assignment = assignment
        self._paths = paths
        self._connect = connect
        self._clock = clock
        self._timing = timing
        self._driver = driver
        self._peers = peers
        self._log = log
        self._timeouts = timeouts
        self._wakeup = Wakeup()
        self._promised_until = float("-inf")
        self._uses_promises = False
        self._stop = StopEscalation(driver, clock, timeouts, log)
        self._killed = False
        self._trial = Trial(driver, clock, on_trial=assignment.on_trial)
        self._nodes = FailsafeNodes(paths)

    async def run(self) -> Outcome | None:
        """Run the attempt to its end. Return None if the lease could not be taken; then nothing was started."""
        session = self._session = LeaseSession(
            self._assignment,
            self._paths,
            connect=self._connect,
            clock=self._clock,
            timing=self._timing,
            wakeup=self._wakeup,
            log=self._log,
            schema=lambda: self._nodes.schema,
            holder_class=self.lease_holder_class,
        )
        try:
            taken = await session.take(self._nodes, timeout_s=self._timeouts.connect_timeout_s)
            if taken is None:
                return None
            self._confirm(session.heartbeat_sent_at)
            self._save_session()
            outcome = await self._supervise(taken)
            self._check_first_batch(taken)
            await self._driver.save_outcome(outcome)
            await self._release_lease(outcome)
            return outcome
        finally:
            await session.close()

    def shut_down(self) -> None:
        """Kill the driver and release the lease because the machine shuts down, so that the job can start elsewhere at once."""
        self._kill_driver(Ending.LOST, "the machine was shut down")
        self._wakeup.wake()

    # The lease

    def _save_session(self) -> None:
        if self._session.client.session is not None:
            self._driver.save_session(self._session.client.session)

    def _confirm(self, sent_at: float) -> None:
        self._session.confirm(sent_at)
        self._update_deadline()

    def _update_deadline(self) -> None:
        self._driver.set_deadline(self._deadline)

    @property
    def _deadline(self) -> float:
        return max(self._session.confirmation.deadline, self._promised_until)

    def _continue_without_session(self) -> None:
        """Open a new session while promises are in force; otherwise kill the driver.

        Confirmations of the ended session do not count any more, because its lease is gone.
        """
        if self._clock.boottime() >= self._promised_until:
            self._kill_driver(Ending.LOST, f"the lease was lost: {self._session.client.end_reason}")
            return
        reason = self._session.client.end_reason
        if self._session.reopen():
            left_s = round(self._promised_until - self._clock.boottime(), 1)
            self._log.warning("session ended; driver keeps running on failsafe promises", problem=reason, left_s=left_s)
            self._update_deadline()

    async def _retake_lease(self) -> None:
        """Take the lease again with a new session. Raises LeaseLost, and the errors of the client."""
        if self._clock.boottime() >= self._promised_until:
            raise LeaseLost("the failsafe promises ran out before the lease could be taken again")
        # Save the session first: if this process dies after the transaction, the node closes the session that holds the lease.
        self._save_session()
        if await self._session.retake():
            self._log.info("lease taken again")

    async def _release_lease(self, outcome: Outcome) -> None:
        await self._session.release(
            outcome,
            self._driver.progress(),
            proven=self._trial.proven,
            checkpoint=self._driver.claimed_checkpoint,
            timeout_s=self._timeouts.release_timeout_s,
        )

    # Supervision of the driver

    async def _supervise(self, taken: TakenLease) -> Outcome:
        work = asyncio.ensure_future(self._driver.run_driver(taken.spec, taken.previous_report, taken.trust))
        work.add_done_callback(lambda _: self._wakeup.wake())
        promises = asyncio.ensure_future(self._follow_promises())
        try:
            while not work.done():
                await self._supervise_once(taken)
                await self._wakeup.wait(self._timing.heartbeat_s if self._killed else self._session.pause_s())
        finally:
            promises.cancel()
        return work.result()

    async def _supervise_once(self, taken: TakenLease) -> None:
        if not self._killed:
            try:
                await self._renew_lease(taken)
            except LeaseLost as error:
                self._kill_driver(Ending.LOST, f"the lease was lost: {error}")
            except (Unavailable, OutcomeUnknown, SessionEnded):
                pass  # the deadline stays unchanged
            except (Conflict, Refused) as error:
                self._log.warning("heartbeat failed", problem=str(error))
        self._check_first_batch(taken)
        if self._stop.escalate():
            self._kill_driver(Ending.STOPPED, "the job did not stop within the time limit and was killed")

    async def _renew_lease(self, taken: TakenLease) -> None:
        session = self._session
        if session.state is ConnectionState.ENDED:
            self._continue_without_session()
        elif session.state is ConnectionState.CONNECTED:
            if not session.holds_lease:
                await self._retake_lease()
            if session.holds_lease:
                await self._step_while_connected(taken)

    async def _step_while_connected(self, taken: TakenLease) -> None:
        session = self._session
        fired, read_at = session.take_fired(), self._clock.boottime()
        try:
            if includes(fired, self._paths.nodes):
                await self._nodes.refresh(session.client)
            if includes(fired, self._paths.job(self._assignment.job, "desired")):
                await self._read_desired(taken)
        except BaseException:
            session.fired_watches |= fired
            raise
        if fired:
            session.confirmation.record_contact(sent_at=read_at, answered_at=self._clock.boottime())
        sent_at = self._clock.boottime()
        if sent_at < session.heartbeat_sent_at + self._timing.heartbeat_s:
            return
        session.heartbeat_sent_at = sent_at
        committed = await session.holder.send_heartbeat(
            driver_pid=self._driver.driver_pid,
            progress=self._driver.progress(),
            failsafe=self._choose_failsafe_set(),
            proven=self._trial.proven,
            note=self._driver.note,
            isolation=self._driver.isolation,
            starting=not self._driver.is_ready,
            application=self._driver.application,
            checkpoint=self._driver.claimed_checkpoint,
        )
        if committed:
            self._confirm(sent_at)

    async def _read_desired(self, taken: TakenLease) -> None:
        """Read the desired state of the job, and stop or kill the driver accordingly."""
        path = self._paths.job(self._assignment.job, "desired")
        try:
            znode = await self._session.client.get(path, watch=True)
            record = decode(DesiredRecord, znode.data, where=path)
        except (NoNode, MalformedRecord, NewerSchema):
            return  # the leader handles the damage; the running driver is not affected
        if record.desired is Desired.CANCEL:
            self._kill_driver(Ending.STOPPED, "a user cancelled the job")
        elif record.desired is Desired.STOP or znode.stat.version != taken.desired_version:
            self._stop.request("stop" if record.desired is Desired.STOP else "restart")

    def _check_first_batch(self, taken: TakenLease) -> None:
        """Record the first batch. Kill a version on trial that has none within its trial period: the leader rolls it back."""
        previous = taken.previous_report
        had_batches = previous is not None and previous.progress is not None and previous.progress.batch_id is not None
        failure = self._trial.find_failure(taken.trial_timeout_s, had_batches=had_batches)
        if failure is not None and not self._stop.requested:
            self._kill_driver(Ending.FAILED, failure)

    def _kill_driver(self, ending: Ending, reason: str) -> None:
        if not self._killed:
            self._killed = True
            self._log.warning("killing the driver", reason=reason)
            self._driver.kill(Outcome(ending, reason))

    # Failsafe: deadline extension without ZooKeeper

    def _choose_failsafe_set(self) -> tuple[NodeId, ...]:
        """Return the failsafe set of the next report: the registered nodes.

        A node joins the set only if its promise lasts as long as the promises that are in force. Otherwise it could start a
        later attempt while they keep the driver alive. Leaving the set is always safe.
        """
        now = self._clock.boottime()
        in_force = self._promised_until if self._promised_until > now else float("-inf")
        named = self._session.holder.failsafe_nodes
        chosen = tuple(node for node in self._nodes.names if node in named or self._promise_deadline((node,)) >= in_force)
        return chosen or self._session.holder.reported_failsafe_set

    async def _follow_promises(self) -> None:
        """Extend the deadline at each heartbeat, in a task of its own: calls to ZooKeeper may wait long for their answers."""
        while not self._killed:
            try:
                self._extend_by_promises()
            except Exception as error:  # noqa: BLE001 -- a bug must not end the loop: the driver depends on it
                self._log.error("internal error", problem=f"{type(error).__name__}: {error}", exc_info=True)
            await asyncio.sleep(self._timing.heartbeat_s)

    def _extend_by_promises(self) -> None:
        """Extend the deadline by the promises of the nodes that the report names. No other node can start a later attempt."""
        self._peers.request_promises()
        deadline = self._deadline
        self._promised_until = max(self._promised_until, self._promise_deadline(self._session.holder.failsafe_nodes))
        if self._deadline != deadline:
            self._update_deadline()
        self._log_use_of_promises()

    def _promise_deadline(self, nodes: tuple[NodeId, ...]) -> float:
        """Return the time at which the driver must be dead if only the promises of these nodes keep it alive.

        Subtract the margin and not only the kill time: nodes count their promises with their own clocks, and a paused watchdog
        dies a little after the deadline.
        """
        return self._peers.promised_until(nodes) - self._timing.margin_s

    def _log_use_of_promises(self) -> None:
        """Log when promises instead of the lease begin or cease to keep the driver alive."""
        now = self._clock.boottime()
        uses_promises = self._session.confirmation.deadline <= now < self._promised_until
        if uses_promises and not self._uses_promises:
            nodes, left_s = list(self._session.holder.failsafe_nodes), round(self._promised_until - now, 1)
            self._log.info("running on failsafe promises", nodes=nodes, left_s=left_s)
        self._uses_promises = uses_promises
