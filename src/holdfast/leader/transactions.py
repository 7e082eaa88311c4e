"""A command as one transaction: what it writes, and a check of everything that it was decided from.

Pure. The epoch is checked by the reign that commits it.
"""

import base64

from holdfast.leader.job_observation import JobSight
from holdfast.leader.observer import Observer
from holdfast.model.cluster_records import QuarantineRecord
from holdfast.model.codec import SCHEMA, encode
from holdfast.model.identifiers import Epoch, JobId, NodeId
from holdfast.model.job import Order, State
from holdfast.plan import Command, Garbled, Launch, Quarantine, Settle, Withdraw
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Check, Create, Delete, Operation, SetData, Znode

ORIGINAL_BYTES_MAX = 500_000
"""What is larger stays where it is, which is all that can be done: znodes hold a megabyte."""


class Apply:
    def __init__(self, observer: Observer, paths: Paths, epoch: Epoch, *, wall: float) -> None:
        self._seen = observer
        self._paths = paths
        self._epoch = epoch
        self._wall = wall
        self._schema = observer.schema or SCHEMA

    def operations(self, command: Command) -> list[Operation]:
        match command:
            case Withdraw(job, node):
                return [self._remove_order(node, job)]
            case Launch(job, node, state):
                return self._launch(self._sight(job), node, state)
            case Settle(job, state):
                return self._settle(self._sight(job), state)
            case Quarantine(job, reason, state):
                return self._quarantine(self._sight(job), reason, state)

    def _sight(self, job: JobId) -> JobSight:
        sight = self._seen.sight(job)
        assert sight is not None, "a plan is only about what was seen"
        return sight

    def _decided_from(self, sight: JobSight) -> list[Operation]:
        """The report among them: whoever takes the lease, or leaves it, changes that too."""
        parts = (
            (self._paths.spec(sight.id, sight.version), sight.spec),
            (self._paths.job(sight.id, "desired"), sight.desired),
            (self._paths.job(sight.id, "report"), sight.report),
        )
        return [Check(path, znode.stat.version) for path, znode in parts if znode is not None]

    def _state(self, sight: JobSight, state: State) -> Operation:
        path = self._paths.job(sight.id, "state")
        data = encode(state, schema=self._schema)
        return Create(path, data) if sight.state is None else SetData(path, data, sight.state.stat.version)

    def _launch(self, sight: JobSight, node: NodeId, state: State) -> list[Operation]:
        attempt = sight.attempt
        assert attempt is not None, "a job without an attempt znode is not launched"
        name, held = sight.claimed_name(self._paths), sight.name
        return [
            *self._decided_from(sight),
            *([Check(name, held.stat.version)] if name is not None and held is not None else []),
            SetData(self._paths.job(sight.id, "attempt"), b"", attempt.stat.version),
            self._state(sight, state),
            *self._remove_orders(sight.id),
            *([] if self._seen.has_orders(node) else [Create(self._paths.orders_of(node))]),
            Create(self._paths.order(node, sight.id), encode(Order(sight.id, state.attempt), schema=self._schema)),
        ]

    def _settle(self, sight: JobSight, state: State) -> list[Operation]:
        operations = [*self._decided_from(sight), self._state(sight, state)]
        if not state.phase.occupies_slots:
            operations += self._remove_orders(sight.id)
        if state.phase.final and sight.view.owns_its_name:
            operations += self._release_name(sight)
        return operations

    def _remove_orders(self, job: JobId) -> list[Operation]:
        return [self._remove_order(node, job) for node in self._seen.ordered_on(job)]

    def _remove_order(self, node: NodeId, job: JobId) -> Operation:
        path = self._paths.order(node, job)
        return Delete(path, self._seen.order_version(path))

    def _release_name(self, sight: JobSight) -> list[Operation]:
        name, held = sight.claimed_name(self._paths), sight.name
        return [Delete(name, held.stat.version)] if name is not None and held is not None else []

    def _quarantine(self, sight: JobSight, reason: str, state: State | None) -> list[Operation]:
        part, original = _unreadable(sight)
        record = QuarantineRecord(
            reason=reason,
            part=part,
            wall=self._wall,
            epoch=self._epoch,
            original=base64.b64encode(original[:ORIGINAL_BYTES_MAX]).decode(),
        )
        return [
            *self._decided_from(sight),
            Create(self._paths.quarantined(sight.id), encode(record, schema=self._schema)),
            *([self._state(sight, state)] if state is not None else []),
            *self._remove_orders(sight.id),
        ]


def _unreadable(sight: JobSight) -> tuple[str, bytes]:
    view = sight.view
    parts: tuple[tuple[str, object, Znode | None], ...] = (
        ("state", view.state, sight.state),
        ("spec", view.spec, sight.spec),
        ("desired", view.desired, sight.desired),
        ("report", view.report, sight.report),
    )
    for part, meaning, znode in parts:
        if isinstance(meaning, Garbled) and znode is not None:
            return part, znode.data
    return "", b""
