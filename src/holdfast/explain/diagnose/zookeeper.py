"""What goes wrong inside a ZooKeeper ensemble."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Diagnosis, Group, seconds
from holdfast.explain.happening import Happening

STALL_MS = 1000
"""ZooKeeper warns from here on."""
TOGETHER_MS = 100
"""Clocks that are kept in step differ by less."""


def simultaneous_stall(case: Case) -> Iterator[Diagnosis]:
    groups = _groups(case)
    if not groups:
        return
    evidence = tuple(one for group in groups for one in group)
    told = [
        Group(min(one.begin_ms for one in group), tuple(sorted({one.component for one in group})), _spread(group))
        for group in groups
    ]
    instants = "; ".join(f"{', '.join(group.servers)} within {group.spread_ms} ms" for group in told)
    yield Diagnosis(
        signature="zk-simultaneous-stall",
        title="the disks of several ZooKeeper servers stopped in the same instant",
        explanation=f"Each server says how long a write to its disk took. Taken off the time of the line, the writes of several "
        f"servers began together: {instants}. Servers that share nothing do not stop together.",
        advice="Look at what they share: a storage array or volume, a hypervisor, a snapshot or backup that runs at that time. "
        "Give each server a disk of its own for its transaction log.",
        confidence=0.95 if any(len(group.servers) > 2 or group.spread_ms <= 10 for group in told) else 0.8,
        evidence=tuple(sorted(evidence, key=lambda one: one.begin_ms)),
        groups=tuple(told),
    )


def _groups(case: Case) -> list[list[Happening]]:
    """Stalls of different servers whose beginnings lie close together."""
    stalls = [one for one in case.all("zk-fsync-slow") if one.event.duration_ms >= STALL_MS]
    groups: list[list[Happening]] = []
    for one in stalls:
        if groups and one.begin_ms - groups[-1][0].begin_ms <= TOGETHER_MS:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [group for group in groups if len({one.component for one in group}) > 1]


def _spread(group: list[Happening]) -> int:
    return max(one.begin_ms for one in group) - min(one.begin_ms for one in group)


def disk_stall(case: Case) -> Iterator[Diagnosis]:
    together = {id(one) for group in _groups(case) for one in group}
    stalls = [one for one in case.all("zk-fsync-slow") if one.event.duration_ms >= STALL_MS and id(one) not in together]
    if not stalls:
        return
    worst = max(stalls, key=lambda one: one.event.duration_ms)
    servers = sorted({one.component for one in stalls})
    yield Diagnosis(
        signature="zk-disk-stall",
        title=f"the disk of {', '.join(servers)} stalled",
        explanation=f"{len(stalls)} writes to the transaction log took longer than {seconds(STALL_MS)}, the longest "
        f"{seconds(worst.event.duration_ms)}, at {worst.component}. While it writes, a server answers nobody.",
        advice="Give the transaction log a disk of its own (dataLogDir), and look for what else writes to it at that time.",
        confidence=min(0.95, 0.6 + worst.event.duration_ms / 30_000),
        evidence=tuple(stalls),
    )


def follower_partitioned(case: Case) -> Iterator[Diagnosis]:
    stalled = {one.component for one in case.all("zk-fsync-slow", "gc-pause")}
    for lost in case.all("zk-follower-failed"):
        seen = case.near(lost, 30_000, 60_000, "zk-peer-lost")
        seen = [one for one in seen if one.component != lost.component]
        broken = case.near(lost, 60_000, 60_000, "zk-quorum-lost")
        if seen and not broken and lost.component not in stalled:
            yield Diagnosis(
                signature="zk-follower-partitioned",
                title=f"{lost.component} was cut off from its leader",
                explanation=f"{lost.component} lost its leader, and {seen[0].component} lost it, while the rest of the ensemble "
                "went on. Neither its disk nor a pause explains it.",
                advice="Look at the network between the two. Clients of that server go to another one and keep their sessions: "
                "whatever restarted because of it gave up too early.",
                confidence=0.8,
                evidence=(lost, *seen),
            )
            return


def quorum_lost(case: Case) -> Iterator[Diagnosis]:
    if lost := case.all("zk-quorum-lost"):
        yield Diagnosis(
            signature="zk-quorum-lost",
            title="the ensemble lost its majority",
            explanation="A leader had too few followers left and stepped down. Until an election was over, nobody was served; "
            "sessions do not expire meanwhile.",
            advice="Find what took the followers away: the lines before this one.",
            confidence=0.85,
            evidence=tuple(lost),
        )


def session_expired(case: Case) -> Iterator[Diagnosis]:
    if expired := case.all("zk-session-expired", "client-expired"):
        sessions = sorted({one.of("session") for one in expired if one.of("session")})
        yield Diagnosis(
            signature="zk-session-expired",
            title=f"ZooKeeper ended {len(sessions)} session{'s' if len(sessions) != 1 else ''}",
            explanation=f"Nothing was heard of {', '.join(sessions[:3])}{' and others' if len(sessions) > 3 else ''} for longer "
            "than the timeout of the session. What its client had registered is gone.",
            advice="Find why the client was silent: a pause, a disk, the network. A timeout that is shorter than the longest "
            "pause of the client ends sessions of clients that live.",
            confidence=0.9,
            evidence=tuple(expired),
        )


def rolling_restart(case: Case) -> Iterator[Diagnosis]:
    """Servers that come back one after the other, where others were up before."""
    seen: dict[str, int] = {}
    again: list[Happening] = []
    for one in case.happenings:
        if one.component.startswith("zookeeper"):
            if one.kind == "zk-server-started" and one.component in seen:
                again.append(one)
            seen.setdefault(one.component, one.begin_ms)
    if len({one.component for one in again}) > 1 and again[-1].begin_ms - again[0].begin_ms > 2000:
        yield Diagnosis(
            signature="zk-rolling-restart",
            title=f"{len({one.component for one in again})} ZooKeeper servers were restarted one after the other",
            explanation="Each was started again while others served. Whoever was connected to one had to go to another.",
            advice="Clients keep their sessions through this. Whatever restarted took a lost connection for a lost session.",
            confidence=0.8,
            evidence=tuple(again),
        )


SIGNATURES = (simultaneous_stall, disk_stall, follower_partitioned, quorum_lost, session_expired, rolling_restart)
