"""What goes wrong inside a ZooKeeper ensemble."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Found, Group, seconds
from holdfast.explain.library.timestamp import stamp
from holdfast.explain.timeline.occurrence import Happening

STALL_MS = 1000
"""ZooKeeper warns from here on."""
TOGETHER_MS = 100
"""Clocks that are kept in step differ by less."""
APART_MS = 2000
"""Servers that are started together are started within this time."""
STARTING_MS = 30_000
"""A server that was just started may look in vain for its leader."""
GONE_MS = 10_000
"""A server that is restarted is back within this time."""
DOWN_MS = 120_000
"""A server that was ended is back within this time."""


def simultaneous_stall(case: Case) -> Iterator[Found]:
    stalls = _together(case)
    if not stalls:
        return
    groups = tuple(_group(one) for one in stalls)
    sure = any(len(group.servers) > 2 or group.spread_ms <= 10 for group in groups)
    yield Found(
        "zk-simultaneous-stall",
        0.95 if sure else 0.8,
        tuple(one for group in stalls for one in group),
        {"instants": "; ".join(map(_instant, groups))},
        groups=groups,
    )


def _instant(group: Group) -> str:
    return f"{', '.join(group.servers)} at {stamp(group.onset_ms)}, within {group.spread_ms} ms"


def _together(case: Case) -> list[list[Happening]]:
    """Stalls of different servers whose beginnings lie close together."""
    groups: list[list[Happening]] = []
    for one in _stalls(case):
        if groups and one.begin_ms - groups[-1][0].begin_ms <= TOGETHER_MS:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [group for group in groups if len({one.component for one in group}) > 1]


def _stalls(case: Case) -> list[Happening]:
    return [one for one in case.all("zk-fsync-slow") if one.event.duration_ms >= STALL_MS]


def _group(stalls: list[Happening]) -> Group:
    begins = [one.begin_ms for one in stalls]
    return Group(min(begins), tuple(sorted({one.component for one in stalls})), max(begins) - min(begins))


def disk_stall(case: Case) -> Iterator[Found]:
    together = {id(one) for group in _together(case) for one in group}
    stalls = [one for one in _stalls(case) if id(one) not in together]
    if stalls:
        worst = max(stalls, key=lambda one: one.event.duration_ms)
        yield Found(
            "zk-disk-stall",
            min(0.95, 0.6 + worst.event.duration_ms / 30_000),
            tuple(stalls),
            {
                "servers": ", ".join(sorted({one.component for one in stalls})),
                "writes": "1 write" if len(stalls) == 1 else f"{len(stalls)} writes",
                "longest": seconds(worst.event.duration_ms),
                "worst": worst.component,
            },
            symptom=worst,
        )


def follower_partitioned(case: Case) -> Iterator[Found]:
    stalled = {one.component for one in case.all("zk-fsync-slow", "gc-pause")}
    for lost in case.all("zk-follower-failed"):
        if lost.component in stalled or case.near(lost, 60_000, 60_000, "zk-quorum-lost"):
            continue
        seen = [one for one in case.near(lost, 30_000, 60_000, "zk-peer-lost") if one.component != lost.component]
        if seen and not _ended(case, lost, seen[0]):
            facts = {"server": lost.component, "leader": seen[0].component}
            yield Found("zk-follower-partitioned", 0.8, (lost, *seen), facts, symptom=lost)
            return


def _ended(case: Case, lost: Happening, seen: Happening) -> bool:
    """Whether one of the two ended, or was just started. A process that ends closes its connections: nobody waits in vain."""
    if lost.of("cause").endswith("SocketTimeoutException"):
        return False
    both = (lost.component, seen.component)
    started = [one for one in case.near(lost, STARTING_MS, DOWN_MS, "zk-server-started") if one.component in both]
    return lost.of("cause").endswith("EOFException") or bool(started)


def quorum_lost(case: Case) -> Iterator[Found]:
    lost = case.all("zk-quorum-lost")
    if lost:
        how = "A leader had too few followers left and stepped down."
        yield Found("zk-quorum-lost", 0.85, tuple(lost), {"how": how}, symptom=lost[0])
    for again in _most_at_once(case):
        how = f"{', '.join(sorted({one.component for one in again}))} were started again together: all of them had been down."
        yield Found("zk-quorum-lost", 0.75, tuple(again), {"how": how}, symptom=again[0])


def _most_at_once(case: Case) -> list[list[Happening]]:
    """More than half of the servers, back within a moment."""
    servers = {one.component for one in case.happenings if one.event.system == "zookeeper"}
    groups: list[list[Happening]] = []
    for one in _again(case):
        if groups and one.begin_ms - groups[-1][0].begin_ms <= APART_MS:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [group for group in groups if 2 * len({one.component for one in group}) > max(len(servers), 2)]


def _again(case: Case) -> list[Happening]:
    """Servers that start where they were seen before."""
    seen: set[str] = set()
    again: list[Happening] = []
    for one in case.happenings:
        if one.kind == "zk-server-started" and one.component in seen:
            again.append(one)
        seen.add(one.component)
    return again


def session_expired(case: Case) -> Iterator[Found]:
    if expired := case.all("zk-session-expired", "client-expired"):
        owners = {one.of("session"): f" of {one.component}" for one in case.all("client-connected")}
        told = sorted({one.of("session") for one in expired if one.of("session")})
        sessions = [session + owners.get(session, "") for session in told]
        named = f"session {', '.join(sessions[:3])}" + (f" and {len(sessions) - 3} more" if len(sessions) > 3 else "")
        if not sessions:
            named = f"a session of {', '.join(sorted({one.component for one in expired})[:3])}"
        yield Found("zk-session-expired", 0.9, tuple(expired), {"sessions": named})


def rolling_restart(case: Case) -> Iterator[Found]:
    """Servers that come back one after the other, where others were up before."""
    at_once = {id(one) for group in _most_at_once(case) for one in group}
    again = [one for one in _again(case) if id(one) not in at_once]
    servers = {one.component for one in again}
    if len(servers) > 1 and again[-1].begin_ms - again[0].begin_ms > APART_MS:
        evidence = (*_missed(case, again), *again)
        yield Found("zk-rolling-restart", 0.8, evidence, {"count": len(servers)}, symptom=again[0])


def _missed(case: Case, again: list[Happening]) -> list[Happening]:
    """What others said when a server was gone: it says nothing of that itself."""
    return [
        one
        for one in case.all("zk-peer-lost", "zk-follower-failed")
        if any(0 <= start.begin_ms - one.begin_ms <= GONE_MS and start.component != one.component for start in again)
    ]


SIGNATURES = (simultaneous_stall, disk_stall, follower_partitioned, quorum_lost, session_expired, rolling_restart)
