"""Leaders that are given up, or given to somebody else."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Diagnosis
from holdfast.explain.happening import Happening

AT_ONCE_MS = 10_000


def lost_on_suspend(case: Case) -> Iterator[Diagnosis]:
    for revoked in case.all("leadership-revoked"):
        suspended = [one for one in case.near(revoked, AT_ONCE_MS, 1000, "connection-suspended") if _here(one, revoked)]
        expired = [one for one in case.near(revoked, 120_000, 1000, "client-expired", "connection-lost") if _here(one, revoked)]
        if not suspended or expired:
            continue
        lost = [one for one in case.near(revoked, AT_ONCE_MS, 1000, "client-disconnected") if _here(one, revoked)]
        back = [one for one in case.near(revoked, 1000, 60_000, "client-connected") if _here(one, revoked)]
        kept = [one for one in back if one.of("session") in {before.of("session") for before in lost}]
        session = f" It was back with the same session {kept[0].of('session')}, which had never expired." if kept else ""
        yield Diagnosis(
            signature="leadership-lost-on-suspend",
            title=f"{revoked.component} gave up leadership because of a lost connection, not a lost session",
            explanation=f"{revoked.component} lost its connection to one ZooKeeper server and gave up leadership at once.{session}",
            advice="Let leaders tolerate suspended connections (in Flink: high-availability.zookeeper.client."
            "tolerate-suspended-connections: true), so that only the end of a session ends a reign.",
            confidence=0.95 if kept else 0.75,
            evidence=tuple(sorted((*lost[:1], suspended[0], revoked, *kept[:1]), key=lambda one: one.begin_ms)),
            symptom=revoked,
            issues=("FLINK-6174", "FLINK-10052"),
        )
        return


def connection_lost(case: Case) -> Iterator[Diagnosis]:
    """A client that found no server at all."""
    lost = case.all("connection-lost")
    if lost and (
        gave_up := case.near(lost[0], 0, 600_000, "retry-gave-up", "registration-failed", "leader-unknown", "workers-lost")
    ):
        yield Diagnosis(
            signature="zk-connection-lost",
            title="a cluster lost its connection to ZooKeeper, and did not find back",
            explanation=f"{lost[0].component} had no connection to any server of the ensemble. It stopped trying, and everything "
            "that needs a leader stopped with it.",
            advice="The servers were replaced or unreachable all at once for this client: compare the addresses it knows with "
            "those of the ensemble. What gave up has to be restarted.",
            confidence=0.8,
            evidence=tuple(sorted((*lost, *gave_up), key=lambda one: one.begin_ms)),
            issues=("FLINK-10052",),
        )


def _here(one: Happening, other: Happening) -> bool:
    return one.component == other.component


SIGNATURES = (lost_on_suspend, connection_lost)
