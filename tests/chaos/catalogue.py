"""Catalogue of fault kinds, their durations, and the seeded choice between them. Pure.

The name of a kind is a list of parts `ACTION:TARGET`, joined by `+`: `stop:runner+stop:watchdog`. All parts hit in the same
instant, except `restart:agent`, which happens in the middle of the rest.

Jobs that a fault may restart follow from the guarantees. A runner keeps its driver while ZooKeeper confirms its lease, or while
every node of the failsafe set renews its promise. So a job is safe from a fault that leaves it one of the two.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.partitions import NODE_TARGETS, PERMANENT_ACTIONS

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
    """`kill`, `stop`, `stall`, `fill`, `cut`, `swallow`, `older`, `empty`, `restart`, `lose`, `unmount`, `freeze`, or a variant
    of `cut` that `partitions` defines."""
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
PARTITION_KINDS = (
    *(f"{action}:{target}" for target in NODE_TARGETS for action in ("cut", "cut-in", "cut-out")),
    *(f"{action}:all-zk" for action in ("cut", "cut-in", "cut-out")),
    "cut:others-zk",
    "cut:all-peers",
    "cut-for-good:node-zk",
    "cut-for-good:node-all",
    "lose:node",
    "kill:zk-all+cut:node-peers",
    "stop:zk-all+cut:node-peers",
    "kill:zk-all+cut:all-peers",
    "cut:node-zk+kill:leader",
    "cut:node-zk+restart:agent",
    "cut:node-peers+kill:leader",
    "cut:node-peers+kill:runner",
    "cut:node-all+kill:leader",
    "cut:node-all+kill:runner",
    "cut:node-all+stop:runner+stop:watchdog",
    "cut:all-peers+kill:agents",
    "lose:node+kill:leader",
)
"""Kinds for which each node has a network namespace of its own. Packets are dropped; no connection is closed."""
STORAGE_KINDS = (
    "unmount:storage",
    "unmount:storage-node",
    "unmount:storage+kill:leader",
    "unmount:storage+kill:driver",
    "unmount:storage-node+kill:runner",
    "unmount:storage+kill:zk-all",
    "unmount:storage-node+cut:node-zk",
)
"""Kinds for which each node has a mount namespace of its own: the storage is away for all nodes, or for one."""
FREEZE_KINDS = ("freeze:storage", "freeze:storage+kill:driver", "freeze:storage+kill:leader", "freeze:storage+kill:zk-all")
"""Kinds for which the storage is a file system of its own. Writes to it wait, as with an NFS server that does not answer."""
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
"""Kinds of a cluster without Spark drivers whose nodes share the network of the machine."""
NAMESPACE_KINDS = (*PARTITION_KINDS, *STORAGE_KINDS, *FREEZE_KINDS)

ZOOKEEPER_AWAY = frozenset({"zk-all", "links", "all-zk"})
"""Targets whose loss leaves all nodes without ZooKeeper."""
PEERS_AWAY = frozenset({"node-peers", "node-all", "all-peers"})
"""Targets whose loss separates nodes from each other."""
NODE_AWAY = frozenset({"node", "link", "disk", "node-zk", "node-all", "others-zk"})
"""Targets whose loss may end the attempts of the nodes that are hit: of one, or of all but one. A node that is cut off from
ZooKeeper alone keeps its attempts until another node certifies that its promise has run out."""


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


def needs_namespaces(kinds: Iterable[str]) -> bool:
    return any(kind in NAMESPACE_KINDS for kind in kinds)


def needs_freezable_storage(kinds: Iterable[str]) -> bool:
    return any(part.action == "freeze" for kind in kinds for part in parse_kind(kind))


def hits_other_nodes(kind: str) -> bool:
    """Return True if the fault hits all nodes but the victim."""
    return any(part.target == "others-zk" for part in parse_kind(kind))


def is_permanent(kind: str) -> bool:
    """Return True if the fault lasts until the jobs of the lost node run on other nodes."""
    return any(part.action in PERMANENT_ACTIONS for part in parse_kind(kind))


def supported_kinds(
    kinds: Iterable[str], *, can_stall: bool, can_mount: bool, can_partition: bool, can_freeze: bool
) -> tuple[str, ...]:
    """Return the kinds that this machine supports."""
    missing = {
        *(() if can_stall else STALL_KINDS),
        *(() if can_mount else DISK_KINDS),
        *(() if can_partition else NAMESPACE_KINDS),
        *(() if can_freeze else FREEZE_KINDS),
    }
    return tuple(kind for kind in kinds if kind not in missing)


def plan_faults(
    seed: int, kinds: Sequence[str], durations: Durations, *, duration_s: float | None = None
) -> Iterator[PlannedFault]:
    """Yield faults without end. Each round has every kind once, in random order, so that a short run is not one-sided.

    `duration_s` replaces the random choice of durations.
    """
    choices = durations.choices() if duration_s is None else ((duration_s, f"{duration_s:g} s"),)
    choose = random.Random(seed)
    while True:
        for kind in choose.sample(list(kinds), len(kinds)):
            length_s, length = choose.choice(choices)
            victim = choose.randrange(1_000_000)
            if not has_duration(kind):
                length_s, length = 0.0, ""
            elif is_permanent(kind):
                length_s, length = 0.0, "for good"
            yield PlannedFault(kind, length_s, length, victim)


def jobs_that_may_restart(
    kind: str, *, duration_s: float, harmless_s: float, victim: str, jobs_on_node: Sequence[str], jobs: Sequence[str]
) -> frozenset[str]:
    """Return the jobs that the fault may restart; every other job keeps its driver.

    A stop shorter than `harmless_s` ends before any deadline. `victim` is the job whose processes are hit. `jobs_on_node` are
    the jobs on the nodes that are hit, or that alone are cut off from ZooKeeper, and `jobs` are all jobs.

    Agents, guards and leaders, a storage that is away, nodes that do not reach each other, and a ZooKeeper that is away for all
    nodes are each no reason to restart a job. Without ZooKeeper and with one node apart, each job lacks a promise.
    """
    parts = parse_kind(kind)
    targets = {part.target for part in parts}
    if duration_s >= harmless_s and targets & ZOOKEEPER_AWAY and targets & PEERS_AWAY:
        return frozenset(jobs)
    allowed: set[str] = set()
    for part in parts:
        is_harmful = part.action == "kill" or (duration_s >= harmless_s and part.target not in USER_ROLES)
        if part.target in ATTEMPT_ROLES and is_harmful:
            allowed.add(victim)
        if part.target in NODE_AWAY and is_harmful:
            allowed.update(jobs_on_node)
    return frozenset(allowed)
