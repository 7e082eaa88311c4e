"""Execution of the leader's orders: start or end attempts, and certify that ended attempts are dead.

An order is only an index of a job's state. The node ignores an order that does not match the state, and an order for an attempt
that has already run. It delays an order for an attempt that it has promised not to start yet.

After a runner's death the node kills all processes of the driver, certifies the death in the report, and closes the runner's
session. So the next attempt never overlaps the dead one, and need not wait until the session expires. The node also kills the
runner if the leader orders it to end an attempt, and for each older attempt of a job before it starts the next one.

An order to end an attempt of another node means that the other node is gone (see `node.expiry_certificate`).
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from holdfast.errors import Conflict, HoldfastError, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.log import Log
from holdfast.model.codec import decode, encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Ending, JobState, Order, Outcome, Report
from holdfast.model.phase import Phase
from holdfast.model.unreported_outcome import first_unreported_attempt
from holdfast.model.versions import Versions
from holdfast.node.attempts import AttemptId, SpawnFailed
from holdfast.node.expiry_certificate import ExpiryCertifier, LocalPromises
from holdfast.zk.records.announced_schemas import read_schema_for_writing
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ANY_PATH, Check, Client, Committed, ConnectionState, NoNode, SetData, Znode


class AttemptOperations(Protocol):
    """Operations on the attempts of this node; implemented by `node.attempts.NodeAttempts`."""

    def list_open(self) -> list[AttemptId]: ...
    def is_running(self, attempt_id: AttemptId) -> bool: ...
    async def spawn(self, attempt_id: AttemptId, versions: Versions) -> None: ...
    async def kill_runner(self, attempt_id: AttemptId) -> bool: ...
    async def kill_tree(self, attempt_id: AttemptId) -> bool: ...
    def read_outcome(self, attempt_id: AttemptId) -> Outcome | None: ...
    async def close_session(self, attempt_id: AttemptId) -> bool: ...
    def mark_closed(self, attempt_id: AttemptId) -> None: ...


RETRY_S = 1.0
"""Delay before the same attempt is started again; doubles with each start."""


class OrderExecutor:
    def __init__(
        self,
        paths: Paths,
        node: NodeId,
        *,
        attempts: AttemptOperations,
        promises: LocalPromises,
        nonce: Callable[[], str],
        wall: Callable[[], float],
        log: Log,
    ) -> None:
        self._paths = paths
        self._node = node
        self._attempts = attempts
        self._promises = promises
        self._expiry = ExpiryCertifier(paths, node, promises, log)
        self._nonce = nonce
        self._wall = wall
        self._log = log
        self._orders: dict[JobId, bool] = {}
        """Orders of this node; the value is False once there is nothing left to do for the order."""
        self._orders_changed = True
        self._starts: dict[tuple[JobId, Attempt], tuple[int, float]] = {}
        """Number of starts of each attempt, and the earliest time of the next: its runner may die before it takes the lease."""
        self._certifying: set[AttemptId] = set()
        self._logged_problems: dict[JobId | AttemptId, str] = {}

    def on_watch_events(self, paths: Iterable[str]) -> None:
        orders = self._paths.node_orders(self._node)
        if any(path in (ANY_PATH, orders) for path in paths):
            self._orders_changed = True

    async def run_pass(self, client: Client) -> None:
        await self._certify_dead_attempts(client)
        if client.state is ConnectionState.CONNECTED:
            await self._execute_orders(client)

    # Orders

    async def _execute_orders(self, client: Client) -> None:
        if self._orders_changed:
            await self._read_orders(client)
        for job, due in sorted(self._orders.items()):
            if due:
                try:
                    self._orders[job] = await self._execute(client, job)
                    self._logged_problems.pop(job, None)
                except (Conflict, Refused, Unavailable) as error:
                    if self._is_new_problem(job, error):
                        self._log.warning("order not followed", job=job, problem=str(error))
                    if isinstance(error, Unavailable) and client.state is not ConnectionState.CONNECTED:
                        raise
                except HoldfastError:
                    raise
                except Exception as error:  # noqa: BLE001 -- an error that affects one job must not stop the others
                    self._log_internal_error(job, job, error)

    async def _read_orders(self, client: Client) -> None:
        path = self._paths.node_orders(self._node)
        try:
            jobs = await client.children(path, watch=True)
        except NoNode:
            # The leader creates this znode with the node's first order: watch for its creation.
            await client.exists(path, watch=True)
            jobs = []
        self._orders_changed = False
        # Check every order again: an order for a new attempt replaces the old one under the same name.
        self._orders = {JobId(job): True for job in jobs}
        self._expiry.forget_except(self._orders)
        self._starts = {attempt: start for attempt, start in self._starts.items() if attempt[0] in self._orders}
        self._logged_problems = {
            subject: problem
            for subject, problem in self._logged_problems.items()
            if isinstance(subject, AttemptId) or subject in self._orders
        }

    async def _execute(self, client: Client, job: JobId) -> bool:
        """Start or end the ordered attempt if that is possible now. Return True if the order must be checked again."""
        path = self._paths.order(self._node, job)
        try:
            order = decode(Order, (await client.get(path, watch=False)).data, where=path)
            state = decode(JobState, (await client.get(self._paths.job(job, "state"))).data, where="state")
            report = await client.get(self._paths.job(job, "report"))
        except NoNode:
            return False
        if (state.node, state.attempt, order.job) != (self._node, order.attempt, job) or not state.phase.occupies_slots:
            return False
        if not order.end:
            return await self._start_if_allowed(client, order, state, report)
        last = _decode_report(report)
        is_current = bool(state.events) and state.events[-1].number == order.event
        if not is_current or last is None or last.attempt != order.attempt:
            return False
        if last.node != self._node:
            return await self._expiry.certify(client, order)
        return await self._end_attempt(client, job, last)

    async def _start_if_allowed(self, client: Client, order: Order, state: JobState, report: Znode) -> bool:
        job, attempt, last = order.job, order.attempt, _decode_report(report)
        if state.phase is Phase.STOPPING or (last is not None and last.attempt >= attempt):
            return False
        if any((each.job, each.attempt) == (job, attempt) for each in self._attempts.list_open()):
            return True  # its runner has not taken the lease yet, or is dead and not yet certified
        # A promise protects a previous attempt that may be alive. The report was read after the state, so it is about that one.
        may_be_alive = last is not None and not last.dead
        if may_be_alive and (remaining_s := self._promises.remaining_s(job, attempt)) > 0:
            self._log.info("order waits", job=job, attempt=attempt, promised_s=round(remaining_s, 1))
            return True
        try:
            if await self._end_older_attempts(client, job, attempt, last):
                await self._start(job, attempt, state.versions)
        except SpawnFailed as error:
            await self._report_failed_start(client, order, state, report, error)
            return False
        return True

    async def _start(self, job: JobId, attempt: Attempt, versions: Versions) -> None:
        """Start a runner for the attempt, unless its last runner died without the lease a moment ago."""
        starts, not_before = self._starts.get((job, attempt), (0, 0.0))
        now = asyncio.get_running_loop().time()
        if starts and now < not_before:
            return
        await self._attempts.spawn(AttemptId(job, attempt, self._nonce()), versions)
        self._starts[job, attempt] = (starts + 1, now + RETRY_S * 2 ** min(starts, 4))
        self._log.info("attempt started", job=job, attempt=attempt)

    async def _report_failed_start(
        self, client: Client, order: Order, state: JobState, report: Znode, error: SpawnFailed
    ) -> None:
        """Report that the attempt is dead before it began, so that the leader can start the next one elsewhere at once.

        No runner of the attempt exists, and none can take the lease any more: the report names the attempt. Raises Unavailable
        if the previous attempt may be alive, because this report would replace the record of its failsafe nodes.
        """
        last = _decode_report(report)
        if last is not None and not last.dead:
            raise Unavailable(f"attempt {order.attempt} cannot be started: {error}")
        is_scheduled = state.runs is not None
        first_unreported = first_unreported_attempt(last, is_scheduled=is_scheduled) if last is not None else order.attempt
        reason = f"attempt {order.attempt} could not be started on {self._node}: {error}"
        failed = Report(
            order.attempt,
            self._node,
            self._wall(),
            nonce=self._nonce(),
            progress=last.progress if last is not None else None,
            outcome=Outcome(Ending.LOST, reason),
            dead=True,
            version=state.versions.current,
            first_unreported=first_unreported,
            checkpoint=last.checkpoint if last is not None else "",
        )
        data = encode(failed, schema=await read_schema_for_writing(client, self._paths))
        newest = Check(self._paths.job(order.job, "attempt"), order.attempt)
        result = await client.commit([newest, SetData(self._paths.job(order.job, "report"), data, report.stat.version)])
        if not isinstance(result, Committed):
            raise result.error
        self._log.warning("attempt not started", job=order.job, attempt=order.attempt, problem=str(error))

    # Ending attempts

    async def _end_attempt(self, client: Client, job: JobId, report: Report) -> bool:
        """End the attempt of the report and certify its death, unless it has its lease. Return True to be called again."""
        lease = self._paths.job(job, "lease")
        await client.sync(lease)
        if report.dead:
            return False
        if await client.exists(lease) is not None:
            return True  # the lease may be lost again before the leader has seen it
        ended = [each for each in self._attempts.list_open() if each.job == job and each.attempt <= report.attempt]
        self._log.warning("attempt is being ended", job=job, attempt=report.attempt, reason="the leader ordered it")
        # Without its directory, the attempt is found by the nonce that all its processes carry.
        reported = AttemptId(job, report.attempt, report.nonce)
        for attempt_id in ended:
            await self._kill_and_certify(client, attempt_id)
        if reported not in ended and await self._kill_tree(reported):
            await self._write_certificate(client, reported)
        return bool(set(ended) & set(self._attempts.list_open()))

    async def _end_older_attempts(self, client: Client, job: JobId, attempt: Attempt, report: Report | None) -> bool:
        """End the older attempts of the job that this node still has. Return False if one of them may be alive."""
        # The runner of an attempt that this node has certified has nothing left to do but to exit. A certificate of another
        # node says nothing about processes that nothing supervises any more.
        is_certified = report is not None and report.dead and report.expired_on is None
        certified = AttemptId(job, report.attempt, report.nonce) if report is not None and is_certified else None
        older = [
            each for each in self._attempts.list_open() if each.job == job and each.attempt < attempt and each != certified
        ]
        for attempt_id in older:
            await self._kill_and_certify(client, attempt_id)
        return not set(older) & set(self._attempts.list_open())

    async def _kill_and_certify(self, client: Client, attempt_id: AttemptId) -> None:
        if await self._attempts.kill_runner(attempt_id):
            await self._certify_dead(client, attempt_id)
        else:
            self._log.error(
                "processes left", job=attempt_id.job, attempt=attempt_id.attempt, problem="the runner survived SIGKILL"
            )

    async def _kill_tree(self, attempt_id: AttemptId) -> bool:
        if await self._attempts.kill_tree(attempt_id):
            return True
        self._log.error("processes left", job=attempt_id.job, attempt=attempt_id.attempt, problem="they survived SIGKILL")
        return False

    def _log_internal_error(self, subject: JobId | AttemptId, job: JobId, error: Exception) -> None:
        if self._is_new_problem(subject, error):
            self._log.error("internal error", job=job, problem=f"{type(error).__name__}: {error}", exc_info=True)

    def _is_new_problem(self, subject: JobId | AttemptId, error: Exception) -> bool:
        """Return False for the problem that was logged last for this subject: each pass finds a newer schema again."""
        is_new = self._logged_problems.get(subject) != str(error)
        self._logged_problems[subject] = str(error)
        return is_new

    # Death certificates

    async def _certify_dead_attempts(self, client: Client) -> None:
        candidates = [each for each in self._attempts.list_open() if each not in self._certifying]
        dead = [each for each in candidates if not self._attempts.is_running(each)]
        await asyncio.gather(*(self._certify_dead(client, each) for each in dead))

    async def _certify_dead(self, client: Client, attempt_id: AttemptId) -> None:
        self._certifying.add(attempt_id)
        try:
            if not await self._kill_tree(attempt_id):
                return
            if client.state is not ConnectionState.CONNECTED:
                return
            if await self._write_certificate(client, attempt_id):
                await self._close_session(attempt_id)
            self._attempts.mark_closed(attempt_id)
            self._logged_problems.pop(attempt_id, None)
            self._orders_changed = True
        except (Unavailable, OutcomeUnknown, Conflict, SessionEnded):
            pass  # the next pass tries again
        except HoldfastError as error:
            if self._is_new_problem(attempt_id, error):
                self._log.error("attempt not certified", job=attempt_id.job, attempt=attempt_id.attempt, problem=str(error))
        except Exception as error:  # noqa: BLE001 -- an error that affects one attempt must not stop the others
            self._log_internal_error(attempt_id, attempt_id.job, error)
        finally:
            self._certifying.discard(attempt_id)

    async def _write_certificate(self, client: Client, attempt_id: AttemptId) -> bool:
        """Certify in the report that the attempt is dead. Return True if its session may still hold the lease."""
        path = self._paths.job(attempt_id.job, "report")
        await client.sync(path)  # the runner may have taken the lease just before its death
        try:
            znode = await client.get(path)
        except NoNode:
            return False
        report = decode(Report, znode.data, where=path) if znode.data else None
        if report is None or (report.attempt, report.nonce) != (attempt_id.attempt, attempt_id.nonce):
            return False
        if report.dead:
            # Certified earlier: by another node, or by an agent that died before it closed the session.
            return await client.exists(self._paths.job(attempt_id.job, "lease")) is not None
        outcome = report.outcome or self._attempts.read_outcome(attempt_id) or Outcome(Ending.LOST, "its runner was killed")
        certificate = replace(report, outcome=outcome, dead=True)
        schema = await read_schema_for_writing(client, self._paths)
        result = await client.commit([SetData(path, encode(certificate, schema=schema), znode.stat.version)])
        if not isinstance(result, Committed):
            raise result.error
        self._log.warning("attempt certified dead", job=attempt_id.job, attempt=attempt_id.attempt, reason=outcome.reason)
        return True

    async def _close_session(self, attempt_id: AttemptId) -> None:
        closed = await self._attempts.close_session(attempt_id)
        self._log.info("runner's session closed" if closed else "runner's session expires", job=attempt_id.job)


def _decode_report(report: Znode) -> Report | None:
    return decode(Report, report.data, where="report") if report.data else None
