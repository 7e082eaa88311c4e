"""Deliberately broken clusters. Each breaks one rule of the design (§4 to §6), and each must be caught by some schedule."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.leader.loop import Pace
from holdfast.leader.observer import Observer
from holdfast.model.codec import decode
from holdfast.model.identifiers import JobId, NodeId
from holdfast.model.job import FIRST_VERSIONS, NO_FAILURES, Ending, Order, Outcome, Report, State
from holdfast.model.phase import Phase
from holdfast.node.attempts import AttemptName
from holdfast.node.order_executor import Hands
from holdfast.plan import Garbled, JobView, Snapshot
from holdfast.runner.attempt import Runner
from holdfast.runner.lease import LeaseHold
from holdfast.zk.leadership import write_outcome as outcomes
from holdfast.zk.session.client import Check, Client, Create, Delete, NoNode, Operation, SetData
from holdfast.zk.session.client import State as Connection
from tests.sim.jobs.broken_clients import (
    DeafToDesired,
    ForgetfulOfReports,
    Overwriting,
    acknowledge_first,
    cancel_acknowledged_first,
    dropping,
    submit_in_two_steps,
    wrapping,
)
from tests.sim.jobs.node import Kit, SimLeader, SimPromises
from tests.sim.jobs.peers import SimPeers
from tests.sim.jobs.storage import Storage
from tests.sim.jobs.watchdog import Watchdog
from tests.sim.jobs.work import SimWork, ended
from tests.sim.jobs.workshop import SimWorkshop
from tests.sim.nodes import PATHS, TIMING
from tests.sim.variants import NoEpochCheck, Reckless, RetryingClient

# Leaders


class Reworded:
    """A reign whose transactions are changed on their way."""

    def __init__(self, reign: Any, change: Callable[[Any, Sequence[Operation]], Any]) -> None:
        self._reign = reign
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reign, name)

    async def commit(self, operations: Sequence[Operation]) -> outcomes.Outcome:
        result: outcomes.Outcome = await self._change(self._reign, operations)
        return result


class RewordingLeader(SimLeader):
    def __init__(self, client: Client, paths: Any, reign: Any, **options: Any) -> None:
        super().__init__(client, paths, Reworded(reign, self.change), **options)  # type: ignore[arg-type]

    async def change(self, reign: Any, operations: Sequence[Operation]) -> Any:
        raise NotImplementedError


class UncheckedDecisions(RewordingLeader):
    """Only what is written is checked, not what it was decided from."""

    async def change(self, reign: Any, operations: Sequence[Operation]) -> Any:
        return await _without(reign, operations, lambda each: isinstance(each, Check))


class UncheckedReports(RewordingLeader):
    """A missing lease is believed, whoever may have taken it since."""

    async def change(self, reign: Any, operations: Sequence[Operation]) -> Any:
        return await _without(reign, operations, lambda each: isinstance(each, Check) and each.path.endswith("/report"))


async def _without(reign: Any, operations: Sequence[Operation], dropped: Callable[[Operation], bool]) -> Any:
    return await reign.commit([each for each in operations if not dropped(each)])


class BelievesInSuccess(RewordingLeader):
    """A transaction that came back is taken for one that took effect."""

    async def change(self, reign: Any, operations: Sequence[Operation]) -> Any:
        outcome = await reign.commit(operations)
        return outcomes.Done(()) if isinstance(outcome, outcomes.Conflict | outcomes.LeadershipLost) else outcome


class LetsGoLater(RewordingLeader):
    """First the final phase, then, in another transaction, the name and the order."""

    async def change(self, reign: Any, operations: Sequence[Operation]) -> Any:
        later = [each for each in operations if isinstance(each, Delete) and not each.path.startswith(PATHS.jobs)]
        first = await reign.commit([each for each in operations if each not in later])
        if later and isinstance(first, outcomes.Done):
            return await reign.commit(later)
        return first


class SweepsByHalves(RewordingLeader):
    async def change(self, reign: Any, operations: Sequence[Operation]) -> Any:
        if not all(isinstance(each, Delete) for each in operations) or len(operations) < 4:
            return await reign.commit(operations)
        first = await reign.commit(operations[:3])
        return await reign.commit(operations[3:]) if isinstance(first, outcomes.Done) else first


class StartsOver(RewordingLeader):
    """What is set aside loses its attempt number: it begins again at 1."""

    async def change(self, reign: Any, operations: Sequence[Operation]) -> Any:
        quarantined = next((each for each in operations if each.path.startswith(PATHS.quarantine)), None)
        if quarantined is None:
            return await reign.commit(operations)
        path = PATHS.job(JobId(quarantined.path.rpartition("/")[2]), "attempt")
        stat = await reign._client.exists(path)
        more = [Delete(path, stat.version), Create(path)] if stat is not None else []
        return await reign.commit([*operations, *more])


class SeeingObserver(Observer):
    """Sees every job in its own way."""

    def snapshot(self, epoch: Any, *, margin_s: float, start_s: float) -> Snapshot:
        seen = super().snapshot(epoch, margin_s=margin_s, start_s=start_s)
        return dataclasses.replace(seen, jobs={id: self.see(view, epoch) for id, view in seen.jobs.items()})

    def see(self, view: JobView, epoch: int) -> JobView:
        raise NotImplementedError


class TakesGarbageForNew(SeeingObserver):
    def see(self, view: JobView, epoch: int) -> JobView:
        if not isinstance(view.state, Garbled):
            return view
        return dataclasses.replace(view, state=State(Phase.PENDING, "new"), owns_its_name=True)


class TakesNothingForNew(SeeingObserver):
    def see(self, view: JobView, epoch: int) -> JobView:
        return dataclasses.replace(view, state=State(Phase.PENDING, "new")) if view.state is None else view


class DoesNotAskForTheName(SeeingObserver):
    def see(self, view: JobView, epoch: int) -> JobView:
        return dataclasses.replace(view, owns_its_name=True)


class NoFailsafeSet(SeeingObserver):
    def see(self, view: JobView, epoch: int) -> JobView:
        if not isinstance(view.report, Report):
            return view
        return dataclasses.replace(view, report=dataclasses.replace(view.report, failsafe=()))


class ForgetsFailures(SeeingObserver):
    """What was counted by another leader does not count."""

    def see(self, view: JobView, epoch: int) -> JobView:
        state = view.state
        if not isinstance(state, State) or not state.events or state.events[-1].epoch == epoch:
            return view
        return dataclasses.replace(view, state=dataclasses.replace(state, failures=NO_FAILURES))


class ForgetsBackOff(SeeingObserver):
    def see(self, view: JobView, epoch: int) -> JobView:
        state = view.state
        if not isinstance(state, State) or not state.events or state.events[-1].epoch == epoch:
            return view
        return dataclasses.replace(view, state=dataclasses.replace(state, not_before=0.0))


class GoesOnCounting(Observer):
    """A margin that began while another node led goes on."""

    def begin_again(self) -> None:
        self.doubt_everything()


def leader_with(kind: type[Observer]) -> type[SimLeader]:
    class ObservingLeader(SimLeader):
        def __init__(self, client: Client, paths: Any, reign: Any, **options: Any) -> None:
            super().__init__(client, paths, reign, **options)
            self.observer = kind(client, paths, options["clock"])

    return ObservingLeader


# Nodes


class BelievesOrders(Hands):
    """An order is followed without a look at the state."""

    async def _follow(self, client: Client, job: JobId) -> bool:
        try:
            order = decode(Order, (await client.get(PATHS.order(self._node, job))).data, where="order")
        except NoNode:
            return False
        if any((name.job, name.attempt) == (job, order.attempt) for name in self._workshop.present()):
            return True
        if order.attempt > max((name.attempt for name in self._workshop.present() if name.job == job), default=0):
            await self._workshop.spawn(AttemptName(job, order.attempt, self._nonce()), FIRST_VERSIONS)
        return False


class RunsAgain(Hands):
    """An attempt that has run already is run again, as long as there is an order for it."""

    async def _follow(self, client: Client, job: JobId) -> bool:
        return await super()._follow(ForgetfulOfReports(client, lambda _: False), job)  # type: ignore[arg-type]


class ClosesFirst(Hands):
    """The session of a dead runner is closed before its driver is dead."""

    async def _bury(self, client: Client, name: AttemptName) -> None:
        await self._workshop.close_session(name)
        await super()._bury(client, name)


class CertifiesFirst(Hands):
    """The certificate is written before every process is gone."""

    async def _bury(self, client: Client, name: AttemptName) -> None:
        if client.state is Connection.CONNECTED and name not in self._burying:
            await self._certify(client, name)
        await super()._bury(client, name)


class DeathByPipe(SimWorkshop):
    """A runner whose pipe has ended is taken for dead: an agent that was started again has no pipe to those of the last one."""

    def running(self, name: AttemptName) -> bool:
        runner = self._files(name).runner
        return runner in self._watched and super().running(name)


class SparesTheWatchdog(SimWorkshop):
    """Only what carries the nonce is killed: what the watchdog is about to start does not carry it yet."""

    async def end_tree(self, name: AttemptName) -> bool:
        await self._step()
        watchdog = self._machine.watchdogs.get(name.nonce)
        driver = watchdog.driver if watchdog is not None else None
        if driver is not None and driver.alive:
            await ended(driver)
        return True


class Unsynced(SimPromises):
    fsync = False


class NoWaitAfterReboot(SimPromises):
    def _load(self, period_s: float) -> None:
        super()._load(period_s)
        self._nothing_before = float("-inf")


# Runners


class FromTheReply(Runner):
    """A confirmation counts from when its reply came."""

    def _confirm(self, client: Client, sent_at: float) -> None:
        now = self._clock.boottime()
        before = now - self._timing.tick_s
        self._confirmation.heard(sent_at=before, answered_at=before)
        super()._confirm(client, now)


class FirstWriteTrusted(Runner):
    def _confirm(self, client: Client, sent_at: float) -> None:
        before = sent_at - self._timing.tick_s
        self._confirmation.heard(sent_at=before, answered_at=before)
        super()._confirm(client, sent_at)


class ReadsInstead(Runner):
    """After the first heartbeat, to have read one's own lease is taken for a confirmation."""

    async def _connected_step(self, client: Client, hold: LeaseHold, taken: Any) -> None:
        sent_at = self._clock.boottime()
        if hold._version == 0:
            await super()._connected_step(client, hold, taken)
        elif sent_at >= self._beat_sent_at + self._timing.heartbeat_s:
            await client.get(PATHS.job(self._run.job, "lease"))
            self._confirm(client, sent_at)


class PanicsWhenSuspended(Runner):
    """A lost connection is taken for a lost lease."""

    async def _step(self, client: Client, hold: LeaseHold, taken: Any) -> None:
        if client.state is Connection.SUSPENDED:
            self._end(Ending.LOST, "the connection was lost")
        await super()._step(client, hold, taken)


class CountsToTheLastMoment(Runner):
    """A promise is used up to the time that a kill takes."""

    async def _ask_for_promises(self) -> None:
        before = self._promised_until
        await super()._ask_for_promises()
        if self._promised_until > before:
            self._promised_until += self._timing.margin_s - self._timing.kill_s
            self._renew()


class CountsFromTheAnswer(Runner):
    """A promise counts from when it was answered, and is used up to the time that a kill takes. (The margin alone
    would hide it.)"""

    async def _ask_for_promises(self) -> None:
        before = self._promised_until
        await super()._ask_for_promises()
        if self._promised_until > before:
            self._promised_until = self._clock.boottime() + self._granted_s + self._timing.margin_s - self._timing.kill_s
            self._renew()


class AsksWhomItKnows(Runner):
    """Those in the last report that was certainly written are asked, not those that may be in a later one."""

    async def _ask_for_promises(self) -> None:
        if self._hold is not None:
            self._hold._perhaps = ()
        await super()._ask_for_promises()


class ReportsAnyway(Runner):
    """An outcome is reported whether or not the lease is still held."""

    async def _give_back(self, client: Client, hold: LeaseHold, outcome: Outcome) -> None:
        await super()._give_back(client, hold, outcome)
        fresh = self._connect(lambda: None)
        for _ in range(100):
            if fresh.state is Connection.CONNECTED:
                break
            await asyncio.sleep(0.05)
        path = PATHS.job(self._run.job, "report")
        if fresh.state is Connection.CONNECTED and hold._report is not None:
            from holdfast.model.codec import encode

            znode = await fresh.get(path)
            report = dataclasses.replace(hold._report, outcome=outcome, dead=True)
            if decode(Report, znode.data, where=path) != report:
                await fresh.commit([SetData(path, encode(report), znode.stat.version)])
        await fresh.close()


class SubsetOfPromises(SimPeers):
    """The promise of some is taken for that of all."""

    async def promise(self, nodes: Any, run: Any, period_s: float) -> bool:
        answers = await asyncio.gather(*(self._ask(NodeId(address), run, period_s) for address in nodes.values()))
        return sum(answers) * 2 > len(answers)


class NoDeadlineWatch(Watchdog):
    watches_deadline = False


class Ungated(Watchdog):
    gated = False


class WorkWithoutWatchdog(SimWork):
    watchdog_kind = NoDeadlineWatch


class UngatedWork(SimWork):
    watchdog_kind = Ungated


class BlamesTheJob(SimWork):
    """A driver that could not be started in time is taken for one that can never be started."""

    def _too_late(self) -> Outcome:
        return Outcome(Ending.UNSTARTABLE, "the deadline had passed before the driver was started")


class LooksAtTheLast(Storage):
    """Only the end of the attempt just before is looked for."""

    looks_far_back = False


class Unread(Storage):
    """Claims and outcomes in the checkpoint are left, and never looked at."""

    async def untold(self, job: JobId, before: Report | None) -> Outcome | None:
        await self._travel()
        return None


@dataclass(frozen=True)
class Variant:
    kit: Kit = field(default_factory=Kit)
    kinds: tuple[str, ...] = ("handover", "storm")
    """Where it is looked for."""
    lives: bool = True
    """Whether it is also judged by whether it recovers."""


RECKLESS = Reckless(tick_s=TIMING.tick_s, margin_s=0.1)

VARIANTS = {
    "sound": Variant(),
    # Rule 1
    "no epoch check": Variant(Kit(agent=NoEpochCheck), kinds=("leader",)),
    "what was decided from is not checked": Variant(Kit(leader=UncheckedDecisions), kinds=("leader",)),
    "whatever version is there is written over": Variant(Kit(agent_connect=wrapping(Overwriting)), kinds=("leader",)),
    "results not inspected": Variant(Kit(leader=BelievesInSuccess), kinds=("leader",)),
    "retry across expiry": Variant(
        Kit(agent_connect=lambda connect: lambda wake: RetryingClient(connect, wake)),
        lives=False,  # type: ignore[arg-type, return-value]
    ),
    # Rule 2
    "submit in two steps": Variant(Kit(submit=submit_in_two_steps)),
    "acknowledged before it is written": Variant(Kit(submit=acknowledge_first)),
    "a cancel acknowledged before it is written": Variant(Kit(want=cancel_acknowledged_first)),
    "a job without state is started": Variant(
        Kit(leader=leader_with(TakesNothingForNew), observer=TakesNothingForNew), kinds=("garbage",)
    ),
    "a job without its name is started": Variant(
        Kit(leader=leader_with(DoesNotAskForTheName), observer=DoesNotAskForTheName), kinds=("garbage",)
    ),
    # Rule 3
    "a lease that does not check the attempt": Variant(Kit(runner_connect=dropping("/attempt")), kinds=("lease",)),
    "a lease that does not check what is wanted": Variant(Kit(runner_connect=dropping("/desired", DeafToDesired))),
    "a number runs twice": Variant(Kit(hands=RunsAgain, runner_connect=dropping("/report", ForgetfulOfReports))),
    # Rule 4
    "a missing lease believed": Variant(Kit(leader=UncheckedReports), kinds=("lease",)),
    "a report without the lease": Variant(Kit(runner=ReportsAnyway)),
    # Rule 5
    "no margin": Variant(Kit(pace=Pace(margin_s=0.0, start_s=12.0)), kinds=("expulsion", "handover")),
    "a margin that goes on under a new leader": Variant(
        Kit(leader=leader_with(GoesOnCounting), observer=GoesOnCounting), kinds=("leader",)
    ),
    # Rule 6
    "what stands in the checkpoint is not read": Variant(Kit(storage=Unread), kinds=("ending",)),
    "only the last end is looked for": Variant(Kit(storage=LooksAtTheLast), kinds=("ending",)),
    "a start that is too late blamed on the job": Variant(Kit(work=BlamesTheJob), kinds=("lease", "words")),
    # Rule 7
    "the name and the order in another transaction": Variant(Kit(leader=LetsGoLater)),
    "swept by halves": Variant(Kit(leader=SweepsByHalves), kinds=("ending",)),
    # Rule 8
    "garbage taken for a new job": Variant(
        Kit(leader=leader_with(TakesGarbageForNew), observer=TakesGarbageForNew), kinds=("garbage",)
    ),
    "attempts begin again at 1": Variant(Kit(leader=StartsOver), kinds=("garbage",)),
    # Orders and burials
    "an order believed": Variant(Kit(hands=BelievesOrders), kinds=("garbage",)),
    "a session closed before the driver is dead": Variant(Kit(hands=ClosesFirst)),
    "certified before everything is gone": Variant(Kit(hands=CertifiesFirst)),
    "the end of a pipe taken for death": Variant(Kit(workshop=DeathByPipe), kinds=("failover",)),
    "a tree ended without its watchdog": Variant(Kit(workshop=SparesTheWatchdog), kinds=("lease",)),
    # Leases and time
    "margin too small": Variant(Kit(timing=RECKLESS, pace=Pace(0.1, 12.0)), kinds=("lease",), lives=False),
    "deadline counted from the reply": Variant(Kit(runner=FromTheReply), kinds=("lease",)),
    "a read taken for a confirmation": Variant(Kit(runner=ReadsInstead), kinds=("lease",), lives=False),
    "the first write after a pause trusted": Variant(Kit(runner=FirstWriteTrusted), kinds=("lease",)),
    "a connection lost taken for a lease lost": Variant(Kit(runner=PanicsWhenSuspended), kinds=("blip", "outage")),
    "no watchdog": Variant(Kit(work=WorkWithoutWatchdog), kinds=("lease",)),
    "the start is not gated": Variant(Kit(work=UngatedWork), kinds=("lease",)),
    # Failsafe
    "a promise not forced to the disk": Variant(Kit(promises=Unsynced), kinds=("failsafe",)),
    "no waiting after a reboot": Variant(Kit(promises=NoWaitAfterReboot), kinds=("failsafe",)),
    "a promise counted from its answer": Variant(Kit(runner=CountsFromTheAnswer), kinds=("failsafe",)),
    "a promise used to the last moment": Variant(Kit(runner=CountsToTheLastMoment), kinds=("failsafe",)),
    "the promise of some taken for that of all": Variant(Kit(peers=SubsetOfPromises), kinds=("failsafe",)),
    "the next attempt outside the failsafe set": Variant(
        Kit(leader=leader_with(NoFailsafeSet), observer=NoFailsafeSet), kinds=("failsafe",)
    ),
    "a set that may have been written is forgotten": Variant(Kit(runner=AsksWhomItKnows), kinds=("failsafe",)),
    # Budgets
    "failures forgotten by a new leader": Variant(Kit(leader=leader_with(ForgetsFailures), observer=ForgetsFailures)),
    "back-off forgotten by a new leader": Variant(Kit(leader=leader_with(ForgetsBackOff), observer=ForgetsBackOff)),
}
