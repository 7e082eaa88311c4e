"""One attempt, from taking the lease to giving it back.

The driver lives as long as a deadline that only committed heartbeats, or the promises of every node of the failsafe set, move
forward. A lost connection changes nothing by itself. The watchdog enforces the deadline, so nothing here has to be on time.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.clock import Clock
from holdfast.errors import Conflict, HoldfastError, OutcomeUnknown, Refused, SessionEnded, Unavailable
from holdfast.log import Log
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import Garbage, NewerSchema, decode
from holdfast.model.identifiers import NodeId
from holdfast.model.job import Desired, Ending, Outcome, Wanted
from holdfast.runner.interfaces import Peers, Work
from holdfast.runner.lease import LeaseHold, LeaseLost, NotOurs, Run, Taken
from holdfast.wakeup import Alarm
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import ANY_PATH, Client, Connect, NoNode, State
from holdfast.zk.session.timing import Confirmation, Timing


@dataclass(frozen=True, slots=True)
class Patience:
    connect_s: float = 20.0
    """For the first connection. Longer than this and the leader gives the attempt up anyway."""
    stop_s: float = 60.0
    """From asking a job to stop to pressing it."""
    press_s: float = 10.0
    """And from there to killing it."""
    report_s: float = 30.0
    """For giving the lease back. After that the node tells the outcome, from what is on disk."""


PATIENCE = Patience()


class Runner:
    def __init__(
        self,
        run: Run,
        paths: Paths,
        *,
        connect: Connect,
        clock: Clock,
        timing: Timing,
        work: Work,
        peers: Peers,
        log: Log,
        patience: Patience = PATIENCE,
    ) -> None:
        self._run = run
        self._paths = paths
        self._connect = connect
        self._clock = clock
        self._timing = timing
        self._work = work
        self._peers = peers
        self._log = log
        self._patience = patience
        self._alarm = Alarm()
        self._confirmation = Confirmation(timing, began_at=clock.boottime())
        self._promised_until = float("-inf")
        self._granted_s = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._beat_sent_at = float("-inf")
        self._stop_asked_at: float | None = None
        self._pressed = False
        self._ending = False
        self._began_at = clock.boottime()
        self._proven = False
        self._fired: set[str] = {ANY_PATH}
        self._client: Client | None = None
        self._hold: LeaseHold | None = None
        self._addresses: dict[NodeId, str] = {}
        self.secret = ""
        """What nodes know us by."""

    async def run(self) -> Outcome | None:
        """None if the attempt was not ours to run."""
        client = self._client = self._connect(self._woken)
        try:
            await self._connected(client)
            hold = self._hold = LeaseHold(client, self._paths, self._run)
            taken = await self._take(client, hold)
            if taken is None:
                return None
            if client.session is not None:
                self._work.keep_session(client.session)
            outcome = await self._supervise(client, hold, taken)
            self._judge_the_trial(taken)
            await self._work.leave(outcome)
            await self._give_back(client, hold, outcome)
            return outcome
        finally:
            await client.close()

    def shut_down(self) -> None:
        """The machine is going down: end the driver in order, so that nobody has to wait before it runs elsewhere."""
        self._end(Ending.LOST, "its machine was shut down")
        self._alarm.ring()

    def _woken(self) -> None:
        if self._client is not None:
            self._fired |= self._client.take_fired()
        self._alarm.ring()

    async def _connected(self, client: Client) -> None:
        give_up_at = self._clock.boottime() + self._patience.connect_s
        while client.state is State.CONNECTING and self._clock.boottime() < give_up_at:
            await self._alarm.wait(self._timing.heartbeat_s)

    # The lease

    async def _take(self, client: Client, hold: LeaseHold) -> Taken | None:
        give_up_at = self._clock.boottime() + self._patience.connect_s
        while self._clock.boottime() < give_up_at and client.state is not State.ENDED:
            if objection := self._timing.objection(client.timeout_s):
                self._log.error("no lease", problem=objection)
                return None
            sent_at = self._clock.boottime()
            try:
                await self._look_for_nodes(client)
                sent_at = self._clock.boottime()
                taken = await hold.take(wall=self._clock.wall(), failsafe=tuple(sorted(self._addresses)))
            except (Unavailable, OutcomeUnknown, SessionEnded) as error:
                self._log.warning("no lease yet", problem=str(error))
                await self._alarm.wait(self._timing.heartbeat_s)
            except (NotOurs, Garbage, NewerSchema, Refused) as error:
                self._log.warning("no lease", problem=str(error))
                return None
            else:
                self._log.info("lease taken")
                self._confirm(client, sent_at)
                return taken
        return None

    def _confirm(self, client: Client, sent_at: float) -> None:
        self._confirmation.confirm(sent_at=sent_at, answered_at=self._clock.boottime(), timeout_s=client.timeout_s)
        self._beat_sent_at = sent_at
        self._granted_s = client.timeout_s - self._timing.margin_s
        self._renew()

    def _renew(self) -> None:
        self._work.renew(self._deadline)

    @property
    def _deadline(self) -> float:
        return max(self._confirmation.deadline, self._promised_until)

    async def _give_back(self, client: Client, hold: LeaseHold, outcome: Outcome) -> None:
        """Until it is known, or there is nothing to give back any more. Then the node tells it instead."""
        give_up_at = self._clock.boottime() + self._patience.report_s
        while client.state is not State.ENDED and self._clock.boottime() < give_up_at:
            try:
                await hold.give_back(outcome, self._work.progress(), proven=self._proven)
            except (Unavailable, OutcomeUnknown):
                await self._alarm.wait(self._timing.heartbeat_s)
            except HoldfastError as error:
                self._log.warning("lease not given back", problem=str(error))
                return
            else:
                self._log.info("lease given back", ending=outcome.ending, reason=outcome.reason)
                return

    # While it works

    async def _supervise(self, client: Client, hold: LeaseHold, taken: Taken) -> Outcome:
        work = asyncio.ensure_future(self._work.perform(taken.spec, taken.before))
        work.add_done_callback(lambda _: self._alarm.ring())
        while not work.done():
            await self._step(client, hold, taken)
            await self._alarm.wait(self._pause_s(client))
        return work.result()

    async def _step(self, client: Client, hold: LeaseHold, taken: Taken) -> None:
        if client.state is State.ENDED:
            self._end(Ending.LOST, f"its lease was lost: {client.ended_because}")
        elif client.state is State.CONNECTED and not self._ending:
            try:
                await self._connected_step(client, hold, taken)
            except LeaseLost as error:
                self._end(Ending.LOST, f"its lease was lost: {error}")
            except (Unavailable, OutcomeUnknown, SessionEnded):
                pass  # the deadline stands where it stands
            except (Conflict, Refused) as error:
                self._log.warning("problem", problem=str(error))
        self._judge_the_trial(taken)
        self._press_if_due()
        self._ask_for_promises_if_due()

    async def _connected_step(self, client: Client, hold: LeaseHold, taken: Taken) -> None:
        fired, self._fired = self._fired, set()
        looked_at = self._clock.boottime()
        try:
            if _any(fired, self._paths.nodes):
                await self._look_for_nodes(client)
            if _any(fired, self._paths.job(self._run.job, "desired")):
                await self._listen(client, taken)
        except BaseException:
            self._fired |= fired
            raise
        if fired:
            self._confirmation.heard(sent_at=looked_at, answered_at=self._clock.boottime())
        sent_at = self._clock.boottime()
        if sent_at < self._beat_sent_at + self._timing.heartbeat_s:
            return
        self._beat_sent_at = sent_at
        committed = await hold.beat(
            driver_pid=self._work.driver_pid,
            progress=self._work.progress(),
            failsafe=tuple(sorted(self._addresses)),
            proven=self._proven,
            note=self._work.note,
        )
        if committed:
            self._confirm(client, sent_at)

    def _pause_s(self, client: Client) -> float:
        """Until the next heartbeat is due; without a connection there is none, and nothing to hurry for."""
        heartbeat_s = self._timing.heartbeat_s
        due_s = self._beat_sent_at + heartbeat_s - self._clock.boottime()
        if client.state is not State.CONNECTED or self._ending:
            return heartbeat_s
        return min(heartbeat_s, due_s + 0.001) if due_s > 0 else heartbeat_s / 10

    async def _look_for_nodes(self, client: Client) -> None:
        """Who could be asked for a promise, and where."""
        self.secret = await _text(client, self._paths.secret)
        found: dict[NodeId, str] = {}
        for name in await client.children(self._paths.nodes, watch=True):
            try:
                znode = await client.get(self._paths.node(NodeId(name)))
                found[NodeId(name)] = decode(NodeRecord, znode.data, where=name).address
            except NoNode:
                continue
            except (Garbage, NewerSchema):
                found[NodeId(name)] = ""  # it is there, and cannot be asked: then nobody can be sure of it
        self._addresses = found

    async def _listen(self, client: Client, taken: Taken) -> None:
        """What do people want now?"""
        path = self._paths.job(self._run.job, "desired")
        try:
            znode = await client.get(path, watch=True)
            wanted = decode(Wanted, znode.data, where=path)
        except (NoNode, Garbage, NewerSchema):
            return  # the leader deals with it; what runs is left alone
        if wanted.desired is Desired.CANCEL:
            self._end(Ending.STOPPED, "a person cancelled it")
        elif wanted.desired is Desired.STOP or znode.stat.version != taken.word:
            self._ask_to_stop("stop" if wanted.desired is Desired.STOP else "restart")

    def _ask_to_stop(self, word: str) -> None:
        if self._stop_asked_at is None:
            self._log.info("asked to stop", word=word)
            self._stop_asked_at = self._clock.boottime()
            self._work.ask_to_stop()

    def _judge_the_trial(self, taken: Taken) -> None:
        """A new version has to show that it works; otherwise it makes room for the one before."""
        if not self._run.on_trial or self._proven:
            return
        progress = self._work.progress()
        if progress is not None and progress.batch_id is not None:
            self._proven = True
        elif self._clock.boottime() - self._began_at >= taken.trial_s and self._stop_asked_at is None:
            self._end(Ending.FAILED, f"{taken.trial_s:.0f} s were not enough for it")

    def _press_if_due(self) -> None:
        if self._stop_asked_at is None:
            return
        waited_s = self._clock.boottime() - self._stop_asked_at
        if waited_s >= self._patience.stop_s and not self._pressed:
            self._pressed = True
            self._log.warning("pressed to stop", waited_s=round(waited_s))
            self._work.press_to_stop()
        if waited_s >= self._patience.stop_s + self._patience.press_s:
            self._end(Ending.STOPPED, "it was asked to stop, did not, and was killed")

    def _end(self, ending: Ending, reason: str) -> None:
        if not self._ending:
            self._ending = True
            self._log.warning("ending", reason=reason)
            self._work.end(Outcome(ending, reason))

    # Without ZooKeeper

    def _ask_for_promises_if_due(self) -> None:
        """At half of what was granted last, and again until it is granted or too late."""
        left_s = self._deadline - self._clock.boottime()
        if self._ending or left_s > self._granted_s / 2 or self._asking is not None:
            return
        self._asking = asyncio.ensure_future(self._ask_for_promises())
        self._asking.add_done_callback(self._asked)

    def _asked(self, task: "asyncio.Task[None]") -> None:
        self._asking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.warning("no promises", problem=str(error))

    async def _ask_for_promises(self) -> None:
        """Only the nodes that the report names: a later attempt cannot be started anywhere else."""
        assert self._hold is not None and self._client is not None, "the lease was taken"
        failsafe = self._hold.failsafe
        addresses = {node: self._addresses.get(node, "") for node in failsafe}
        if not failsafe or not all(addresses.values()):
            return
        period_s = self._client.timeout_s
        sent_at = self._clock.boottime()
        if not await self._peers.promise(addresses, self._run, period_s):
            return
        # Less the margin, not only the time to kill: a watchdog that stands still is noticed only after the deadline.
        self._granted_s = period_s - self._timing.margin_s
        self._promised_until = max(self._promised_until, sent_at + self._granted_s)
        self._log.info("promised", nodes=list(failsafe), left_s=round(self._deadline - self._clock.boottime(), 1))
        self._renew()


async def _text(client: Client, path: str) -> str:
    try:
        return (await client.get(path)).data.decode(errors="replace").strip()
    except NoNode:
        return ""


def _any(fired: Iterable[str], path: str) -> bool:
    return any(each in (ANY_PATH, path) for each in fired)
