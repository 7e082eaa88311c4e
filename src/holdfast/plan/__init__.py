"""Planning: `plan(snapshot, now)` returns commands. Pure: no I/O, no clock, no randomness.

Every pass plans the whole cluster. A command carries its reason. The transaction of a command checks the versions of all
znodes that the decision depends on, so an outdated plan has no effect.
"""

from holdfast.plan.command import Command, EndAttempt, Launch, Quarantine, UpdateState, WithdrawOrder
from holdfast.plan.planner import plan
from holdfast.plan.snapshot import JobView, NodeView, Now, Snapshot

__all__ = [
    "Command",
    "EndAttempt",
    "JobView",
    "Launch",
    "NodeView",
    "Now",
    "Quarantine",
    "Snapshot",
    "UpdateState",
    "WithdrawOrder",
    "plan",
]
