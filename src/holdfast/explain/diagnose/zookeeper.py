"""Detectors of problems inside a ZooKeeper ensemble."""

from collections.abc import Iterator

from holdfast.explain.diagnose.diagnosis import SignatureMatch, StallGroup, format_duration
from holdfast.explain.library.timestamp import format_timestamp
from holdfast.explain.timeline.occurrence import Occurrence
from holdfast.explain.timeline.timeline import Timeline

STALL_MS = 1000
"""Duration from which ZooKeeper itself warns about a slow write."""
SIMULTANEOUS_STALLS_MS_MAX = 100
"""Longest time between the starts of simultaneous stalls. Synchronized clocks differ by less."""
JOINT_START_MS_MAX = 2000
"""Longest time between the starts of servers that are started together."""
JOIN_MS_MAX = 30_000
"""Longest time that a started server needs to find its leader."""
RESTART_MS_MAX = 10_000
"""Longest time that a restart of a server takes."""
DOWNTIME_MS_MAX = 120_000
"""Longest time between a stop of a server and its next start."""


def detect_simultaneous_stall(timeline: Timeline) -> Iterator[SignatureMatch]:
    stalls = _simultaneous_stalls(timeline)
    if not stalls:
        return
    groups = tuple(_group(one) for one in stalls)
    sure = any(len(group.servers) > 2 or group.spread_ms <= 10 for group in groups)
    yield SignatureMatch(
        "zk-simultaneous-stall",
        0.95 if sure else 0.8,
        tuple(one for group in stalls for one in group),
        {"instants": "; ".join(map(_instant, groups))},
        groups=groups,
    )


def _instant(group: StallGroup) -> str:
    return f"{', '.join(group.servers)} at {format_timestamp(group.onset_ms)}, within {group.spread_ms} ms"


def _simultaneous_stalls(timeline: Timeline) -> list[list[Occurrence]]:
    """Group stalls of different servers that begin at the same time."""
    groups: list[list[Occurrence]] = []
    for one in _stalls(timeline):
        if groups and one.begin_ms - groups[-1][0].begin_ms <= SIMULTANEOUS_STALLS_MS_MAX:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [group for group in groups if len({one.component for one in group}) > 1]


def _stalls(timeline: Timeline) -> list[Occurrence]:
    return [one for one in timeline.all("zk-fsync-slow") if one.event.duration_ms >= STALL_MS]


def _group(stalls: list[Occurrence]) -> StallGroup:
    begins = [one.begin_ms for one in stalls]
    return StallGroup(min(begins), tuple(sorted({one.component for one in stalls})), max(begins) - min(begins))


def detect_disk_stall(timeline: Timeline) -> Iterator[SignatureMatch]:
    simultaneous = {id(one) for group in _simultaneous_stalls(timeline) for one in group}
    stalls = [one for one in _stalls(timeline) if id(one) not in simultaneous]
    if stalls:
        worst = max(stalls, key=lambda one: one.event.duration_ms)
        yield SignatureMatch(
            "zk-disk-stall",
            min(0.95, 0.6 + worst.event.duration_ms / 30_000),
            tuple(stalls),
            {
                "servers": ", ".join(sorted({one.component for one in stalls})),
                "writes": "1 write" if len(stalls) == 1 else f"{len(stalls)} writes",
                "longest": format_duration(worst.event.duration_ms),
                "worst": worst.component,
            },
            symptom=worst,
        )


def detect_follower_partitioned(timeline: Timeline) -> Iterator[SignatureMatch]:
    stalled = {one.component for one in timeline.all("zk-fsync-slow", "gc-pause")}
    for lost in timeline.all("zk-follower-failed"):
        if lost.component in stalled or timeline.near(lost, 60_000, 60_000, "zk-quorum-lost"):
            continue
        seen = [one for one in timeline.near(lost, 30_000, 60_000, "zk-peer-lost") if one.component != lost.component]
        if seen and not _was_stopped(timeline, lost, seen[0]):
            facts = {"server": lost.component, "leader": seen[0].component}
            yield SignatureMatch("zk-follower-partitioned", 0.8, (lost, *seen), facts, symptom=lost)
            return


def _was_stopped(timeline: Timeline, lost: Occurrence, seen: Occurrence) -> bool:
    """Return True if one of the two stopped or had just started. A process that stops closes its connections, so that its
    peer does not run into a timeout."""
    if lost.value("cause").endswith("SocketTimeoutException"):
        return False
    both = (lost.component, seen.component)
    started = [one for one in timeline.near(lost, JOIN_MS_MAX, DOWNTIME_MS_MAX, "zk-server-started") if one.component in both]
    return lost.value("cause").endswith("EOFException") or bool(started)


def detect_quorum_lost(timeline: Timeline) -> Iterator[SignatureMatch]:
    lost = timeline.all("zk-quorum-lost")
    if lost:
        how = "A leader stepped down because it had too few followers."
        yield SignatureMatch("zk-quorum-lost", 0.85, tuple(lost), {"how": how}, symptom=lost[0])
    for restarts in _majority_restarts(timeline):
        how = f"{', '.join(sorted({one.component for one in restarts}))} were restarted together, so all of them had been down."
        yield SignatureMatch("zk-quorum-lost", 0.75, tuple(restarts), {"how": how}, symptom=restarts[0])


def _majority_restarts(timeline: Timeline) -> list[list[Occurrence]]:
    """Group restarts of more than half of the servers at the same time."""
    servers = {one.component for one in timeline.occurrences if one.event.system == "zookeeper"}
    groups: list[list[Occurrence]] = []
    for one in _restarts(timeline):
        if groups and one.begin_ms - groups[-1][0].begin_ms <= JOINT_START_MS_MAX:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [group for group in groups if 2 * len({one.component for one in group}) > max(len(servers), 2)]


def _restarts(timeline: Timeline) -> list[Occurrence]:
    """Return the starts of servers that wrote something before."""
    seen: set[str] = set()
    restarts: list[Occurrence] = []
    for one in timeline.occurrences:
        if one.kind == "zk-server-started" and one.component in seen:
            restarts.append(one)
        seen.add(one.component)
    return restarts


def detect_session_expired(timeline: Timeline) -> Iterator[SignatureMatch]:
    if expired := timeline.all("zk-session-expired", "client-expired"):
        owners = {one.value("session"): f" of {one.component}" for one in timeline.all("client-connected")}
        names = sorted({one.value("session") for one in expired if one.value("session")})
        sessions = [session + owners.get(session, "") for session in names]
        named = f"session{'s' if len(sessions) > 1 else ''} {', '.join(sessions[:3])}" + (
            f" and {len(sessions) - 3} more" if len(sessions) > 3 else ""
        )
        if not sessions:
            named = f"a session of {', '.join(sorted({one.component for one in expired})[:3])}"
        yield SignatureMatch("zk-session-expired", 0.9, tuple(expired), {"sessions": named})


def detect_rolling_restart(timeline: Timeline) -> Iterator[SignatureMatch]:
    """Detect servers that restart one after the other."""
    in_majority = {id(one) for group in _majority_restarts(timeline) for one in group}
    restarts = [one for one in _restarts(timeline) if id(one) not in in_majority]
    servers = {one.component for one in restarts}
    if len(servers) > 1 and restarts[-1].begin_ms - restarts[0].begin_ms > JOINT_START_MS_MAX:
        evidence = (*_reports_of_absence(timeline, restarts), *restarts)
        yield SignatureMatch("zk-rolling-restart", 0.8, evidence, {"count": len(servers)}, symptom=restarts[0])


def _reports_of_absence(timeline: Timeline, restarts: list[Occurrence]) -> list[Occurrence]:
    """Return the reports of other servers about a server that was down, which wrote no log itself."""
    return [
        one
        for one in timeline.all("zk-peer-lost", "zk-follower-failed")
        if any(0 <= start.begin_ms - one.begin_ms <= RESTART_MS_MAX and start.component != one.component for start in restarts)
    ]


DETECTORS = (
    detect_simultaneous_stall,
    detect_disk_stall,
    detect_follower_partitioned,
    detect_quorum_lost,
    detect_session_expired,
    detect_rolling_restart,
)
