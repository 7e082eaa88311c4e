"""Leaders that are given up, or given to somebody else."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Found

AT_ONCE_MS = 10_000
_FOLLOWS = ("retry-gave-up", "registration-failed", "leader-unknown", "workers-lost")


def lost_on_suspend(case: Case) -> Iterator[Found]:
    for revoked in case.all("leadership-revoked"):
        suspended = case.near(revoked, AT_ONCE_MS, 1000, "connection-suspended", same="component")
        expired = case.near(revoked, 120_000, 1000, "client-expired", "connection-lost", same="component")
        if not suspended or expired:
            continue
        lost = case.near(revoked, AT_ONCE_MS, 1000, "client-disconnected", same="component")
        back = case.near(revoked, 1000, 60_000, "client-connected", same="component")
        kept = [one for one in back if one.of("session") in {before.of("session") for before in lost}]
        again = f" It was back with the same session {kept[0].of('session')}, which had never expired." if kept else ""
        yield Found(
            "leadership-lost-on-suspend",
            0.95 if kept else 0.75,
            (*lost[:1], suspended[0], revoked, *kept[:1]),
            {"component": revoked.component, "kept": again},
            symptom=revoked,
        )
        return


def connection_lost(case: Case) -> Iterator[Found]:
    """A client that found no server at all."""
    lost = case.all("connection-lost")
    gave_up = case.near(lost[0], 0, 600_000, *_FOLLOWS) if lost else []
    if gave_up:
        yield Found("zk-connection-lost", 0.8, (*lost, *gave_up), {"component": lost[0].component})


SIGNATURES = (lost_on_suspend, connection_lost)
