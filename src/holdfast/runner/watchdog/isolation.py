"""Isolation level of an attempt. Standard library only: the watchdog imports this."""

import contextlib
import os

from holdfast.runner.watchdog import attempt_cgroup, pid_namespace
from holdfast.runner.watchdog.attempt_cgroup import AttemptCgroup, CgroupRefused
from holdfast.runner.watchdog.cgroup_location import find_own_cgroup
from holdfast.runner.watchdog.pid_namespace import NamespaceRefused, PidNamespace

NAMESPACE = "namespace"
CGROUP = "cgroup"
SCAN = "scan"
"""Levels, the highest first. NAMESPACE: the kernel kills all processes of an attempt together with the watchdog. CGROUP: a
write to `cgroup.kill` kills all of them. SCAN: Holdfast searches for them in /proc."""

ISOLATION_VARIABLE = "HOLDFAST_ISOLATION"
"""Environment variable of the agent: the highest level to use, `cgroup` or `scan`."""
_FORBIDDEN = f"{ISOLATION_VARIABLE} is set"


def find_level() -> tuple[str, str]:
    """Return the highest level that this process can use, and the reason for a level below NAMESPACE.

    The probes fork, so call this before the first thread starts.
    """
    highest = os.environ.get(ISOLATION_VARIABLE)
    if highest == SCAN:
        return SCAN, _FORBIDDEN
    problem = _FORBIDDEN if highest == CGROUP else pid_namespace.find_problem()
    return _find_level_below_namespace(problem) if problem else (NAMESPACE, "")


def _find_level_below_namespace(problem: str) -> tuple[str, str]:
    cgroup_problem = attempt_cgroup.find_problem()
    return _search_only(problem, cgroup_problem) if cgroup_problem else (CGROUP, problem)


def _search_only(problem: str, cgroup_problem: str) -> tuple[str, str]:
    return SCAN, f"{problem}; no cgroup: {cgroup_problem}"


def isolate_driver() -> tuple[PidNamespace | AttemptCgroup | None, str, str]:
    """Create what the highest possible level needs for the driver of this process.

    Return it with the level and the reason for a level below NAMESPACE. If a limit of the system is reached after the probe,
    the next lower level is used: the kernel may still count the namespace of the probe. Raises OSError if this process cannot
    start any other process.
    """
    level, problem = find_level()
    if level == NAMESPACE:
        try:
            return PidNamespace(), level, ""
        except NamespaceRefused as error:
            level, problem = _find_level_below_namespace(error.strerror or str(error))
    if level == CGROUP:
        try:
            return _create_cgroup(), level, problem
        except CgroupRefused as error:
            level, problem = _search_only(problem, attempt_cgroup.describe_error(error))
    return None, level, problem


def _create_cgroup() -> AttemptCgroup:
    parent = find_own_cgroup()
    # A watchdog that is killed while it starts leaves a cgroup that no runner and no agent knows of.
    attempt_cgroup.remove_leftovers(parent)
    return AttemptCgroup(parent)


def remove_leftover_cgroups(level: str) -> None:
    """Remove the empty cgroups of dead watchdogs beside those of this process."""
    if level == CGROUP:
        with contextlib.suppress(OSError):
            attempt_cgroup.remove_leftovers(find_own_cgroup())
