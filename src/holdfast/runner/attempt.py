"""Life cycle of one attempt, from taking the lease to releasing it.

The driver may live until a deadline. Committed heartbeats extend the deadline, and so do promises of all nodes of the failsafe
set. A lost connection alone changes nothing. The watchdog enforces the deadline, so a delay in this process does no harm.
"""

import asyncio
from collections.abc import Iterable

from holdfast.clock import Clock
from holdfast.errors import Conflict, HoldfastError, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.log import Log
from holdfast.model.codec import MalformedRecord, NewerSchema, decode
from holdfast.model.job import Desired, DesiredRecord, Ending, Outcome
from holdfast.runner.failsafe_nodes import FailsafeNodes
from holdfast.runner.interfaces import DriverExecution, FailsafePeers
from holdfast.runner.lease import AttemptAssignment, LeaseHolder, LeaseLost, LeaseRefused, TakenLease
from holdfast.runner.stop_escalation import StopEscalation
from holdfast.runner.timeouts import DEFAULT_TIMEOUTS, AttemptTimeouts
from holdfast.wakeup import Wakeup
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ANY_PATH, Client, ClientFactory, ConnectionState, NoNode
from holdfast.zk.session.timing import Confirmation, Timing


class Runner:
    """Owner of one attempt: holds its lease, supervises its driver and reports its outcome."""

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
        self._confirmation = Confirmation(timing, started_at=clock.boottime())
        self._promised_until = float("-inf")
        self._granted_s = 0.0
        self._promise_request: asyncio.Task[None] | None = None
        self._heartbeat_sent_at = float("-inf")
        self._stop = StopEscalation(driver, clock, timeouts, log)
        self._killed = False
        self._started_at = clock.boottime()
        self._proven = False
        self._fired_watches: set[str] = {ANY_PATH}
        self._client: Client | None = None
        self._lease_holder: LeaseHolder | None = None
        self._nodes = FailsafeNodes(paths)

    @property
    def secret(self) -> str:
        """Secret of the cluster, which authenticates the runner to the nodes."""
        return self._nodes.secret

    async def run(self) -> Outcome | None:
        """Run the attempt to its end. Return None if the lease could not be taken; then nothing was started."""
        client = self._client = self._connect(self._handle_watch)
        try:
            await self._wait_for_connection(client)
            holder = self._lease_holder = LeaseHolder(client, self._paths, self._assignment)
            taken = await self._take_lease(client, holder)
            if taken is None:
                return None
            if client.session is not None:
                self._driver.save_session(client.session)
            outcome = await self._supervise(client, holder, taken)
            self._check_trial(taken)
            await self._driver.save_outcome(outcome)
            await self._release_lease(client, holder, outcome)
            return outcome
        finally:
            await client.close()

    def shut_down(self) -> None:
        """Kill the driver and release the lease because the machine shuts down, so that the job can start elsewhere at once."""
        self._kill_driver(Ending.LOST, "the machine was shut down")
        self._wakeup.wake()

    def _handle_watch(self) -> None:
        if self._client is not None:
            self._fired_watches |= self._client.take_fired_paths()
        self._wakeup.wake()

    async def _wait_for_connection(self, client: Client) -> None:
        give_up_at = self._clock.boottime() + self._timeouts.connect_timeout_s
        while client.state is ConnectionState.CONNECTING and self._clock.boottime() < give_up_at:
            await self._wakeup.wait(self._timing.heartbeat_s)

    # The lease

    async def _take_lease(self, client: Client, holder: LeaseHolder) -> TakenLease | None:
        give_up_at = self._clock.boottime() + self._timeouts.connect_timeout_s
        while self._clock.boottime() < give_up_at and client.state is not ConnectionState.ENDED:
            if problem := self._timing.find_problem(client.timeout_s):
                self._log.error("lease not taken", problem=problem)
                return None
            sent_at = self._clock.boottime()
            try:
                await self._nodes.refresh(client)
                sent_at = self._clock.boottime()
                taken = await holder.take(started_at=self._clock.wall(), failsafe=self._nodes.names)
            except (Unavailable, OutcomeUnknown, SessionEnded) as error:
                self._log.warning("lease not taken yet", problem=str(error))
                await self._wakeup.wait(self._timing.heartbeat_s)
            except (LeaseRefused, MalformedRecord, NewerSchema, Refused) as error:
                self._log.warning("lease not taken", problem=str(error))
                return None
            else:
                self._log.info("lease taken")
                self._confirm(client, sent_at)
                return taken
        return None

    def _confirm(self, client: Client, sent_at: float) -> None:
        self._confirmation.confirm(sent_at=sent_at, answered_at=self._clock.boottime(), timeout_s=client.timeout_s)
        self._heartbeat_sent_at = sent_at
        self._granted_s = client.timeout_s - self._timing.margin_s
        self._update_deadline()

    def _update_deadline(self) -> None:
        self._driver.set_deadline(self._deadline)

    @property
    def _deadline(self) -> float:
        return max(self._confirmation.deadline, self._promised_until)

    async def _release_lease(self, client: Client, holder: LeaseHolder, outcome: Outcome) -> None:
        """Release the lease with the outcome. Give up when the lease is lost or after the timeout; then the node reports it."""
        give_up_at = self._clock.boottime() + self._timeouts.release_timeout_s
        while client.state is not ConnectionState.ENDED and self._clock.boottime() < give_up_at:
            try:
                await holder.release(outcome, self._driver.progress(), proven=self._proven)
            except (Unavailable, OutcomeUnknown):
                await self._wakeup.wait(self._timing.heartbeat_s)
            except HoldfastError as error:
                self._log.warning("lease not released", problem=str(error))
                return
            else:
                self._log.info("lease released", ending=outcome.ending, reason=outcome.reason)
                return

    # Supervision of the driver

    async def _supervise(self, client: Client, holder: LeaseHolder, taken: TakenLease) -> Outcome:
        work = asyncio.ensure_future(self._driver.run_driver(taken.spec, taken.previous_report))
        work.add_done_callback(lambda _: self._wakeup.wake())
        while not work.done():
            await self._supervise_once(client, holder, taken)
            await self._wakeup.wait(self._pause_s(client))
        return work.result()

    async def _supervise_once(self, client: Client, holder: LeaseHolder, taken: TakenLease) -> None:
        if client.state is ConnectionState.ENDED:
            self._kill_driver(Ending.LOST, f"the lease was lost: {client.end_reason}")
        elif client.state is ConnectionState.CONNECTED and not self._killed:
            try:
                await self._step_while_connected(client, holder, taken)
            except LeaseLost as error:
                self._kill_driver(Ending.LOST, f"the lease was lost: {error}")
            except (Unavailable, OutcomeUnknown, SessionEnded):
                pass  # the deadline stays unchanged
            except (Conflict, Refused) as error:
                self._log.warning("heartbeat failed", problem=str(error))
        self._check_trial(taken)
        if self._stop.escalate():
            self._kill_driver(Ending.STOPPED, "the job did not stop within the time limit and was killed")
        self._request_promises_if_due()

    async def _step_while_connected(self, client: Client, holder: LeaseHolder, taken: TakenLease) -> None:
        fired, self._fired_watches = self._fired_watches, set()
        read_at = self._clock.boottime()
        try:
            if _includes(fired, self._paths.nodes):
                await self._nodes.refresh(client)
            if _includes(fired, self._paths.job(self._assignment.job, "desired")):
                await self._read_desired(client, taken)
        except BaseException:
            self._fired_watches |= fired
            raise
        if fired:
            self._confirmation.record_contact(sent_at=read_at, answered_at=self._clock.boottime())
        sent_at = self._clock.boottime()
        if sent_at < self._heartbeat_sent_at + self._timing.heartbeat_s:
            return
        self._heartbeat_sent_at = sent_at
        committed = await holder.send_heartbeat(
            driver_pid=self._driver.driver_pid,
            progress=self._driver.progress(),
            failsafe=self._nodes.names,
            proven=self._proven,
            note=self._driver.note,
        )
        if committed:
            self._confirm(client, sent_at)

    def _pause_s(self, client: Client) -> float:
        """Return the time until the next heartbeat is due. Without a connection there is no heartbeat to send."""
        heartbeat_s = self._timing.heartbeat_s
        due_s = self._heartbeat_sent_at + heartbeat_s - self._clock.boottime()
        if client.state is not ConnectionState.CONNECTED or self._killed:
            return heartbeat_s
        return min(heartbeat_s, due_s + 0.001) if due_s > 0 else heartbeat_s / 10

    async def _read_desired(self, client: Client, taken: TakenLease) -> None:
        """Read the desired state of the job, and stop or kill the driver accordingly."""
        path = self._paths.job(self._assignment.job, "desired")
        try:
            znode = await client.get(path, watch=True)
            wanted = decode(DesiredRecord, znode.data, where=path)
        except (NoNode, MalformedRecord, NewerSchema):
            return  # the leader handles the damage; the running driver is not affected
        if wanted.desired is Desired.CANCEL:
            self._kill_driver(Ending.STOPPED, "a user cancelled the job")
        elif wanted.desired is Desired.STOP or znode.stat.version != taken.desired_version:
            self._stop.request("stop" if wanted.desired is Desired.STOP else "restart")

    def _check_trial(self, taken: TakenLease) -> None:
        """Kill a new version that has not completed a batch within its trial period; the leader then rolls it back."""
        if not self._assignment.on_trial or self._proven:
            return
        progress = self._driver.progress()
        if progress is not None and progress.batch_id is not None:
            self._proven = True
        elif self._clock.boottime() - self._started_at >= taken.trial_timeout_s and not self._stop.requested:
            self._kill_driver(Ending.FAILED, f"it completed no batch within {taken.trial_timeout_s:.0f} s")

    def _kill_driver(self, ending: Ending, reason: str) -> None:
        if not self._killed:
            self._killed = True
            self._log.warning("killing the driver", reason=reason)
            self._driver.kill(Outcome(ending, reason))

    # Failsafe: deadline extension without ZooKeeper

    def _request_promises_if_due(self) -> None:
        """Request promises when half of the last extension is used up, and again until they are granted or it is too late."""
        left_s = self._deadline - self._clock.boottime()
        if self._killed or left_s > self._granted_s / 2 or self._promise_request is not None:
            return
        self._promise_request = asyncio.ensure_future(self._request_promises())
        self._promise_request.add_done_callback(self._finish_promise_request)

    def _finish_promise_request(self, task: "asyncio.Task[None]") -> None:
        self._promise_request = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.warning("failsafe promises not received", problem=str(error))

    async def _request_promises(self) -> None:
        """Extend the deadline by the promises of the nodes that the report names. No other node can start a later attempt."""
        assert self._lease_holder is not None and self._client is not None, "the lease was taken"
        failsafe = self._lease_holder.failsafe_nodes
        addresses = {node: self._nodes.address(node) for node in failsafe}
        if not failsafe or not all(addresses.values()):
            return
        period_s = self._client.timeout_s
        sent_at = self._clock.boottime()
        if not await self._peers.request_promises(addresses, self._assignment, period_s):
            return
        # Subtract the whole margin, not only the kill time: the runner notices a paused watchdog only after the deadline.
        self._granted_s = period_s - self._timing.margin_s
        self._promised_until = max(self._promised_until, sent_at + self._granted_s)
        self._log.info(
            "failsafe promises received", nodes=list(failsafe), left_s=round(self._deadline - self._clock.boottime(), 1)
        )
        self._update_deadline()


def _includes(fired: Iterable[str], path: str) -> bool:
    return any(each in (ANY_PATH, path) for each in fired)
