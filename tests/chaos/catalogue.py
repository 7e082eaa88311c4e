"""Catalogue of fault kinds, their durations, and the seeded choice between them. Pure.

The name of a kind is a list of parts `ACTION:TARGET`, joined by `+`: `stop:runner+stop:watchdog`. All parts hit in the same
instant, except `restart:agent`, which happens in the middle of the rest.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

PROCESS_ROLES = ("agent", "guard", "runner", "watchdog", "driver")
ATTEMPT_ROLES = frozenset({"runner", "watchdog", "driver", "jvm"})
"""Processes of one attempt. Agent and guard belong to the node."""
USER_ROLES = frozenset({"driver", "jvm"})
"""Processes of the user's program. They have no deadline: a stopped one continues when it is resumed."""
DURATION_FACTORS = (0.3, 0.9, 1.05, 1.5, 3.0, 4.0)
"""Durations as multiples of the session timeout T."""
DEADLINE_OFFSETS_S = (-0.05, 0.05)
"""Durations around the time from a confirmation to the deadline."""


@dataclass(frozen=True, slots=True)
class Part:
    action: str
    """`kill`, `stop`, `stall`, `fill`, `cut`, `swallow`, `older`, `empty` or `restart`."""
    target: str


def parse_kind(kind: str) -> tuple[Part, ...]:
    return tuple(Part(*text.split(":")) for text in kind.split("+"))


def _single_kinds() -> tuple[str, ...]:
    return tuple(f"{action}:{role}" for role in PROCESS_ROLES for action in ("kill", "stop"))


def _pair_kinds() -> tuple[str, ...]:
    actions = list(itertools.product(("kill", "stop"), repeat=2))
    return tuple(
        f"{first}:{left}+{second}:{right}"
        for left, right in itertools.combinations(PROCESS_ROLES, 2)
        for first, second in actions
    )


SINGLE_KINDS = _single_kinds()
PAIR_KINDS = _pair_kinds()
NODE_KINDS = ("kill:leader", "stop:leader", "kill:agents", "stop:agents", "kill:node", "stop:node")
ZOOKEEPER_KINDS = (
    "kill:zk-one",
    "stop:zk-one",
    "kill:zk-all",
    "stop:zk-all",
    "kill:zk-all+restart:agent",
    "stop:zk-all+restart:agent",
)
DATA_KINDS = ("older:zk-data", "empty:zk-data")
STALL_KINDS = ("stall:zk-one", "stall:zk-all")
"""Kinds that need a C compiler."""
DISK_KINDS = ("fill:disk",)
"""Kinds that need a node on a small file system of its own, which only root may mount."""
LINK_TARGETS = frozenset({"link", "links"})
"""Network between one node and ZooKeeper, and between all nodes and ZooKeeper."""
NETWORK_KINDS = ("cut:link", "cut:links", "swallow:link", "swallow:links")
"""Kinds for which each node reaches ZooKeeper through proxies."""
SPARK_KINDS = (
    "kill:jvm",
    "stop:jvm",
    "kill:runner+kill:jvm",
    "stop:runner+stop:jvm",
    "stop:watchdog+stop:jvm",
    "kill:driver+stop:jvm",
)
"""Kinds that need a job with a real Spark driver."""
ALL_KINDS = (*SINGLE_KINDS, *PAIR_KINDS, *NODE_KINDS, *ZOOKEEPER_KINDS, *DATA_KINDS, *STALL_KINDS, *DISK_KINDS, *NETWORK_KINDS)


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """Choice of one fault. The cluster decides which process ids it means."""

    kind: str
    duration_s: float
    duration: str
    """The duration in words; empty if the kind has none."""
    victim: int
    """Random number that selects the job, node or server among equals."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Session timeout and margin of the cluster under test."""

    session_timeout_s: float
    margin_s: float

    @property
    def deadline_s(self) -> float:
        """Time from a confirmation to the deadline of a driver."""
        return self.session_timeout_s - self.margin_s

    def choices(self) -> tuple[tuple[float, str], ...]:
        multiples = [(factor * self.session_timeout_s, f"{factor:g} T") for factor in DURATION_FACTORS]
        around = [(self.deadline_s + offset, f"deadline {offset * 1000:+.0f} ms") for offset in DEADLINE_OFFSETS_S]
        return (*multiples, *around)


def has_duration(kind: str) -> bool:
    """Return True unless all parts of the kind end at once, like the death of a process that is restarted."""
    parts = parse_kind(kind)
    return any(part.action != "kill" or part.target.startswith("zk") for part in parts)


def needs_links(kinds: Iterable[str]) -> bool:
    return any(part.target in LINK_TARGETS for kind in kinds for part in parse_kind(kind))


def needs_small_disk(kinds: Iterable[str]) -> bool:
    return any(part.target == "disk" for kind in kinds for part in parse_kind(kind))


def supported_kinds(kinds: Iterable[str], *, can_stall: bool, can_mount: bool) -> tuple[str, ...]:
    """Return the kinds that this machine supports."""
    missing = {*(() if can_stall else STALL_KINDS), *(() if can_mount else DISK_KINDS)}
    return tuple(kind for kind in kinds if kind not in missing)


def plan_faults(seed: int, kinds: Sequence[str], durations: Durations) -> Iterator[PlannedFault]:
    """Yield faults without end. Each round has every kind once, in random order, so that a short run is not one-sided."""
    choose = random.Random(seed)
    while True:
        for kind in choose.sample(list(kinds), len(kinds)):
            duration_s, duration = choose.choice(durations.choices())
            victim = choose.randrange(1_000_000)
            if not has_duration(kind):
                duration_s, duration = 0.0, ""
            yield PlannedFault(kind, duration_s, duration, victim)


def jobs_that_may_restart(
    kind: str, *, duration_s: float, harmless_s: float, victim: str, jobs_on_node: Sequence[str]
) -> frozenset[str]:
    """Return the jobs that the fault may restart; every other job keeps its driver.

    A stop shorter than `harmless_s` ends before any deadline. `victim` is the job whose processes are hit. `jobs_on_node` are
    the jobs on the node that is hit, or that is alone cut off from ZooKeeper. Agents, guards, leaders and a ZooKeeper that is
    away for all nodes are never a reason to restart a job.
    """
    allowed: set[str] = set()
    for part in parse_kind(kind):
        is_harmful = part.action == "kill" or (duration_s >= harmless_s and part.target not in USER_ROLES)
        if part.target in ATTEMPT_ROLES and is_harmful:
            allowed.add(victim)
        if part.target in ("node", "link", "disk") and is_harmful:
            allowed.update(jobs_on_node)
    return frozenset(allowed)
