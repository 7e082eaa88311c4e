"""Isolation level of an attempt. Standard library only: the watchdog imports this."""

import contextlib
import os

from holdfast.runner.watchdog import attempt_cgroup, pid_namespace
from holdfast.runner.watchdog.attempt_cgroup import AttemptCgroup
from holdfast.runner.watchdog.cgroup_location import find_own_cgroup
from holdfast.runner.watchdog.pid_namespace import PidNamespace

NAMESPACE = "namespace"
CGROUP = "cgroup"
SCAN = "scan"
"""Levels, the highest first. NAMESPACE: the kernel kills all processes of an attempt together with the watchdog. CGROUP: a
write to `cgroup.kill` kills all of them. SCAN: Holdfast searches for them in /proc."""

ISOLATION_VARIABLE = "HOLDFAST_ISOLATION"
"""Environment variable of the agent: the highest level to use, `cgroup` or `scan`."""


def find_level() -> tuple[str, str]:
    """Return the highest level that this process can use, and the reason for a level below NAMESPACE.

    The probes fork, so call this before the first thread starts.
    """
    highest = os.environ.get(ISOLATION_VARIABLE)
    forbidden = f"{ISOLATION_VARIABLE} is set"
    if highest == SCAN:
        return SCAN, forbidden
    problem = forbidden if highest == CGROUP else pid_namespace.find_problem()
    if not problem:
        return NAMESPACE, ""
    cgroup_problem = attempt_cgroup.find_problem()
    return (SCAN, f"{problem}; no cgroup: {cgroup_problem}") if cgroup_problem else (CGROUP, problem)


def isolate_driver(level: str) -> PidNamespace | AttemptCgroup | None:
    """Create what the level needs for the driver of this process. Raises OSError."""
    if level == NAMESPACE:
        return PidNamespace()
    if level == SCAN:
        return None
    parent = find_own_cgroup()
    # A watchdog that is killed while it starts leaves a cgroup that no runner and no agent knows of.
    attempt_cgroup.remove_leftovers(parent)
    return AttemptCgroup(parent)


def remove_leftover_cgroups(level: str) -> None:
    """Remove the empty cgroups of dead watchdogs beside those of this process."""
    if level == CGROUP:
        with contextlib.suppress(OSError):
            attempt_cgroup.remove_leftovers(find_own_cgroup())
