"""Transactions of commands: the writes, and a version check of every znode that the decision depends on.

Pure. The leadership that commits a transaction adds the check of the epoch.
"""

import base64

from holdfast.leader.job_observation import JobObservation
from holdfast.leader.observer import Observer
from holdfast.model.cluster_records import QuarantineRecord
from holdfast.model.codec import encode
from holdfast.model.identifiers import Epoch, JobId, NodeId
from holdfast.model.job import JobState, Order
from holdfast.plan import Command, EndAttempt, Launch, Quarantine, UpdateState, WithdrawOrder
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Check, Create, Delete, Operation, SetData, Znode

ORIGINAL_BYTES_MAX = 500_000
"""Bytes of an unreadable part that the quarantine record keeps. A znode holds at most 1 MB."""


class TransactionBuilder:
    """Builder of a command's operations, from the observations that the command was planned from."""

    def __init__(self, observer: Observer, paths: Paths, epoch: Epoch, *, wall: float) -> None:
        self._observer = observer
        self._paths = paths
        self._epoch = epoch
        self._wall = wall
        self._schema = observer.schema

    def build(self, command: Command) -> list[Operation]:
        match command:
            case WithdrawOrder(job, node):
                return [self._remove_order(node, job)]
            case Launch(job, node, state):
                return self._launch(self._observation(job), node, state)
            case EndAttempt(job, node, state):
                return self._end_attempt(self._observation(job), node, state)
            case UpdateState(job, state):
                return self._update_state(self._observation(job), state)
            case Quarantine(job, reason, state):
                return self._quarantine(self._observation(job), reason, state)

    def _observation(self, job: JobId) -> JobObservation:
        observation = self._observer.observation(job)
        assert observation is not None, "a plan contains only observed jobs"
        return observation

    def _checks(self, observation: JobObservation) -> list[Operation]:
        """Return version checks of the parts. They include the report, which every taking and release of the lease changes."""
        parts = (
            (self._paths.spec(observation.id, observation.spec_version), observation.znode("spec")),
            (self._paths.job(observation.id, "desired"), observation.znode("desired")),
            (self._paths.job(observation.id, "report"), observation.znode("report")),
        )
        return [Check(path, znode.stat.version) for path, znode in parts if znode is not None]

    def _write_state(self, observation: JobObservation, state: JobState) -> Operation:
        path, old = self._paths.job(observation.id, "state"), observation.znode("state")
        data = encode(state, schema=self._schema)
        return Create(path, data) if old is None else SetData(path, data, old.stat.version)

    def _launch(self, observation: JobObservation, node: NodeId, state: JobState) -> list[Operation]:
        attempt = observation.znode("attempt")
        assert attempt is not None, "a job without an attempt znode is not launched"
        return [
            *self._checks(observation),
            *(Check(path, znode.stat.version) for path, znode in self._claimed_name(observation)),
            SetData(self._paths.job(observation.id, "attempt"), b"", attempt.stat.version),
            self._write_state(observation, state),
            *self._replace_order(node, Order(observation.id, state.attempt)),
        ]

    def _end_attempt(self, observation: JobObservation, node: NodeId, state: JobState) -> list[Operation]:
        report = observation.znode("report")
        order = Order(
            observation.id,
            state.attempt,
            end=True,
            event=state.events[-1].number,
            report=report.stat.version if report is not None else None,
        )
        return [
            *self._checks(observation),
            self._write_state(observation, state),
            *self._replace_order(node, order),
        ]

    def _replace_order(self, node: NodeId, order: Order) -> list[Operation]:
        """Delete the old order and create the new one, so that the watch on the node's orders fires."""
        return [
            *self._remove_orders(order.job),
            *([] if self._observer.orders.has_directory(node) else [Create(self._paths.node_orders(node))]),
            Create(self._paths.order(node, order.job), encode(order, schema=self._schema)),
        ]

    def _update_state(self, observation: JobObservation, state: JobState) -> list[Operation]:
        operations = [*self._checks(observation), self._write_state(observation, state)]
        if not state.phase.occupies_slots:
            operations += self._remove_orders(observation.id)
        if state.phase.final and observation.view.owns_name:
            operations += [Delete(path, znode.stat.version) for path, znode in self._claimed_name(observation)]
        return operations

    def _remove_orders(self, job: JobId) -> list[Operation]:
        return [self._remove_order(node, job) for node in self._observer.orders.nodes_with_order(job)]

    def _remove_order(self, node: NodeId, job: JobId) -> Operation:
        path = self._paths.order(node, job)
        return Delete(path, self._observer.orders.version(path))

    def _claimed_name(self, observation: JobObservation) -> list[tuple[str, Znode]]:
        """Return the path and the znode of the name that the spec claims, if the name exists."""
        path, znode = observation.claimed_name(self._paths), observation.name
        return [(path, znode)] if path is not None and znode is not None else []

    def _quarantine(self, observation: JobObservation, reason: str, state: JobState | None) -> list[Operation]:
        part, original = observation.find_unreadable()
        record = QuarantineRecord(
            reason=reason,
            part=part,
            wall=self._wall,
            epoch=self._epoch,
            original=base64.b64encode(original[:ORIGINAL_BYTES_MAX]).decode(),
        )
        return [
            *self._checks(observation),
            Create(self._paths.quarantine_entry(observation.id), encode(record, schema=self._schema)),
            *([self._write_state(observation, state)] if state is not None else []),
            *self._remove_orders(observation.id),
        ]
