"""Detectors of lost leadership and of clients that lose ZooKeeper."""

from collections.abc import Iterator

from holdfast.explain.diagnose.diagnosis import SignatureMatch
from holdfast.explain.timeline.timeline import Timeline

REVOKED_WITHIN_MS = 10_000
_FOLLOWS = ("retry-gave-up", "registration-failed", "leader-unknown", "workers-lost")


def detect_lost_on_suspend(timeline: Timeline) -> Iterator[SignatureMatch]:
    """Detect a leader that gives up because its connection is suspended, although its session never expired."""
    for revoked in timeline.all("leadership-revoked"):
        suspended = timeline.near(revoked, REVOKED_WITHIN_MS, 1000, "connection-suspended", same="component")
        expired = timeline.near(revoked, 120_000, 1000, "client-expired", "connection-lost", same="component")
        if not suspended or expired:
            continue
        lost = timeline.near(revoked, REVOKED_WITHIN_MS, 1000, "client-disconnected", same="component")
        back = timeline.near(revoked, 1000, 60_000, "client-connected", same="component")
        same_session = [one for one in back if one.value("session") in {before.value("session") for before in lost}]
        again = (
            f" It reconnected with the same session {same_session[0].value('session')}, which had not expired."
            if same_session
            else ""
        )
        yield SignatureMatch(
            "leadership-lost-on-suspend",
            0.95 if same_session else 0.75,
            (*lost[:1], suspended[0], revoked, *same_session[:1]),
            {"component": revoked.component, "kept": again},
            symptom=revoked,
        )
        return


def detect_connection_lost(timeline: Timeline) -> Iterator[SignatureMatch]:
    """Detect a client that cannot connect to any server."""
    lost = timeline.all("connection-lost")
    gave_up = timeline.near(lost[0], 0, 600_000, *_FOLLOWS) if lost else []
    if gave_up:
        yield SignatureMatch("zk-connection-lost", 0.8, (*lost, *gave_up), {"component": lost[0].component})


DETECTORS = (detect_lost_on_suspend, detect_connection_lost)
