"""Leaders and observers that break one rule each."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.leader.observer import Observer
from holdfast.model.codec import SCHEMA, NewerSchema, UnreadableRecord
from holdfast.model.identifiers import JobId
from holdfast.model.job import NO_FAILURES, JobState, Report
from holdfast.model.phase import Phase
from holdfast.plan import JobView, Snapshot
from holdfast.zk.leadership import write_outcome as outcomes
from holdfast.zk.session.client import Check, Client, Create, Delete, Operation, SetData
from tests.sim.jobs.cluster.job_node import SimLeader
from tests.sim.leadership.agent_node import PATHS


class ChangedLeadership:
    """Leadership that passes each transaction to `change`, which alters it before it is committed."""

    def __init__(self, leadership: Any, change: Callable[[Any, Sequence[Operation]], Any]) -> None:
        self._leadership = leadership
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._leadership, name)

    async def commit(self, operations: Sequence[Operation]) -> outcomes.WriteOutcome:
        result: outcomes.WriteOutcome = await self._change(self._leadership, operations)
        return result


class ChangedTransactionsLeader(SimLeader):
    def __init__(self, client: Client, paths: Any, leadership: Any, **options: Any) -> None:
        super().__init__(client, paths, ChangedLeadership(leadership, self.change), **options)  # type: ignore[arg-type]  # stands for a leadership

    async def change(self, leadership: Any, operations: Sequence[Operation]) -> Any:
        raise NotImplementedError


class UncheckedDecisions(ChangedTransactionsLeader):
    """Leader that checks only the znodes that it writes, not those that it decided from."""

    async def change(self, leadership: Any, operations: Sequence[Operation]) -> Any:
        return await _without(leadership, operations, lambda each: isinstance(each, Check))


class UncheckedReports(ChangedTransactionsLeader):
    """Leader that trusts a missing lease without a check that no runner has taken it since."""

    async def change(self, leadership: Any, operations: Sequence[Operation]) -> Any:
        return await _without(leadership, operations, lambda each: isinstance(each, Check) and each.path.endswith("/report"))


async def _without(leadership: Any, operations: Sequence[Operation], dropped: Callable[[Operation], bool]) -> Any:
    return await leadership.commit([each for each in operations if not dropped(each)])


class IgnoresConflicts(ChangedTransactionsLeader):
    """Leader that treats every transaction with a reply as committed."""

    async def change(self, leadership: Any, operations: Sequence[Operation]) -> Any:
        outcome = await leadership.commit(operations)
        return outcomes.WriteCommitted(()) if isinstance(outcome, outcomes.WriteConflict | outcomes.LeadershipLost) else outcome


class StopsAtNewerSchema(SimLeader):
    """Leader that manages no job while a record of a newer schema exists."""

    async def run_pass(self) -> int:
        await self.observer.refresh()
        for reason in self.observer.jobs_set_aside().values():
            raise NewerSchema(reason, schema=SCHEMA + 1)
        return await super().run_pass()


class ReleasesInSecondTransaction(ChangedTransactionsLeader):
    """Leader that writes the final phase first, and releases the name and the order in a second transaction."""

    async def change(self, leadership: Any, operations: Sequence[Operation]) -> Any:
        later = [each for each in operations if isinstance(each, Delete) and not each.path.startswith(PATHS.jobs)]
        first = await leadership.commit([each for each in operations if each not in later])
        if later and isinstance(first, outcomes.WriteCommitted):
            return await leadership.commit(later)
        return first


class DeletesInTwoTransactions(ChangedTransactionsLeader):
    async def change(self, leadership: Any, operations: Sequence[Operation]) -> Any:
        if not all(isinstance(each, Delete) for each in operations) or len(operations) < 4:
            return await leadership.commit(operations)
        first = await leadership.commit(operations[:3])
        return await leadership.commit(operations[3:]) if isinstance(first, outcomes.WriteCommitted) else first


class ResetsAttemptNumber(ChangedTransactionsLeader):
    """Leader that resets the attempt number of a job when it quarantines the job."""

    async def change(self, leadership: Any, operations: Sequence[Operation]) -> Any:
        quarantined = next((each for each in operations if each.path.startswith(PATHS.quarantine)), None)
        if quarantined is None:
            return await leadership.commit(operations)
        path = PATHS.job(JobId(quarantined.path.rpartition("/")[2]), "attempt")
        stat = await leadership._client.exists(path)
        more = [Delete(path, stat.version), Create(path)] if stat is not None else []
        return await leadership.commit([*operations, *more])


class ChangedObserver(Observer):
    """Observer that alters its view of every job."""

    def snapshot(self, epoch: Any) -> Snapshot:
        snapshot = super().snapshot(epoch)
        return dataclasses.replace(snapshot, jobs={id: self.change_view(view, epoch) for id, view in snapshot.jobs.items()})

    def change_view(self, view: JobView, epoch: int) -> JobView:
        raise NotImplementedError


class NodesAreNotAsked(Observer):
    """Observer for which no node ends attempts on request, so that the leader trusts its clock."""

    def snapshot(self, epoch: Any) -> Snapshot:
        snapshot = super().snapshot(epoch)
        nodes = {id: dataclasses.replace(node, ends_attempts=False) for id, node in snapshot.nodes.items()}
        return dataclasses.replace(snapshot, nodes=nodes)


class RestartingNodeIsGone(Observer):
    """Observer that treats a node as gone as soon as it is not registered, although its agent may only be restarting."""

    def snapshot(self, epoch: Any) -> Snapshot:
        return dataclasses.replace(super().snapshot(epoch), nodes_gone_since={})


class UnreadableStateIsPending(ChangedObserver):
    def change_view(self, view: JobView, epoch: int) -> JobView:
        if not isinstance(view.state, UnreadableRecord):
            return view
        return dataclasses.replace(view, state=JobState(Phase.PENDING, "new"), owns_name=True)


class MissingStateIsPending(ChangedObserver):
    def change_view(self, view: JobView, epoch: int) -> JobView:
        return dataclasses.replace(view, state=JobState(Phase.PENDING, "new")) if view.state is None else view


class IgnoresNameOwner(ChangedObserver):
    def change_view(self, view: JobView, epoch: int) -> JobView:
        return dataclasses.replace(view, owns_name=True)


class NoFailsafeSet(ChangedObserver):
    def change_view(self, view: JobView, epoch: int) -> JobView:
        if not isinstance(view.report, Report):
            return view
        return dataclasses.replace(view, report=dataclasses.replace(view.report, failsafe=()))


class NewLeaderForgetsFailures(ChangedObserver):
    """Observer that discards the failure count written by an earlier leader."""

    def change_view(self, view: JobView, epoch: int) -> JobView:
        state = view.state
        if not isinstance(state, JobState) or not state.events or state.events[-1].epoch == epoch:
            return view
        return dataclasses.replace(view, state=dataclasses.replace(state, failures=NO_FAILURES))


class NewLeaderForgetsBackoff(ChangedObserver):
    def change_view(self, view: JobView, epoch: int) -> JobView:
        state = view.state
        if not isinstance(state, JobState) or not state.events or state.events[-1].epoch == epoch:
            return view
        return dataclasses.replace(view, state=dataclasses.replace(state, not_before=0.0))


class NewLeaderForgetsPosition(ChangedObserver):
    """Observer that loses the position in the schedule that an earlier leader wrote."""

    def change_view(self, view: JobView, epoch: int) -> JobView:
        state = view.state
        if not isinstance(state, JobState) or not state.events or state.events[-1].epoch == epoch or state.runs is None:
            return view
        runs = dataclasses.replace(state.runs, position=state.runs.anchor)
        return dataclasses.replace(view, state=dataclasses.replace(state, runs=runs))


class FinishedRunIsRepeated(ChangedTransactionsLeader):
    """Leader that loses the end of a run: it writes the next state with the run still open."""

    async def change(self, leadership: Any, operations: Sequence[Operation]) -> Any:
        return await leadership.commit([_reopened(each) for each in operations])


def _reopened(operation: Operation) -> Operation:
    if not isinstance(operation, SetData) or not operation.path.endswith("/state"):
        return operation
    fields = json.loads(operation.data)
    runs = fields.get("runs")
    if fields["phase"] != "SCHEDULED" or runs is None or runs["run"] is not None or not runs["ended"]:
        return operation
    *ended, last = runs["ended"]
    fields["runs"] = {**runs, "ended": ended, "run": {**last, "ended": None, "outcome": None}}
    return dataclasses.replace(operation, data=json.dumps(fields).encode())


class NewLeaderContinuesMargin(Observer):
    """Observer that continues a margin that began under another leader."""

    def start_leading(self) -> None:
        self.mark_all_stale()


def leader_with_observer(kind: type[Observer]) -> type[SimLeader]:
    class ObservingLeader(SimLeader):
        def __init__(self, client: Client, paths: Any, leadership: Any, **options: Any) -> None:
            super().__init__(client, paths, leadership, **options)
            self.observer = kind(client, paths, options["clock"])

    return ObservingLeader
