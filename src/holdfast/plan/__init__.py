"""Deciding: `plan(snapshot, now)` gives commands. Pure: no I/O, no clock, no randomness.

Every pass looks at the whole. A command carries its reason; whoever carries it out checks the versions of everything that it
was decided from, in the same transaction, so that a plan that has become old does nothing.
"""

from holdfast.plan.command import Command, Launch, Quarantine, Settle, Withdraw
from holdfast.plan.planner import plan
from holdfast.plan.snapshot import Garbled, JobView, NodeView, Now, Snapshot

__all__ = [
    "Command",
    "Garbled",
    "JobView",
    "Launch",
    "NodeView",
    "Now",
    "Quarantine",
    "Settle",
    "Snapshot",
    "Withdraw",
    "plan",
]
