"""Brokers that lose their registration, and consumers that lose their place."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Found


def broker_session_lost(case: Case) -> Iterator[Found]:
    for expired in case.all("kafka-session-expired", "kafka-broker-fenced"):
        sessions = case.near(expired, 60_000, 5000, "client-expired", same="component")
        again = case.near(expired, 0, 60_000, "kafka-registered-again", same="component")
        fenced = expired.of("broker")
        facts = {
            "broker": f"broker {fenced}" if fenced else expired.component,
            "session": f" ({sessions[0].of('session')})" if sessions else "",
            "back": f" It registered itself again {again[0].begin_ms - expired.begin_ms} ms later." if again else "",
        }
        yield Found("kafka-broker-session-lost", 0.9, (expired, *sessions[:1], *again[:1]), facts, symptom=expired)


def offset_reset(case: Case) -> Iterator[Found]:
    for lost in case.all("kafka-offset-out-of-range"):
        partition = lost.of("partition")
        resets = case.near(lost, 0, 60_000, "kafka-offset-reset", same="partition")
        if not resets and not lost.of("reset"):
            continue  # it stopped there, and said so
        where = f" It went on from {resets[0].of('offset')}." if resets else ""
        facts = {"partition": partition, "offset": lost.of("offset"), "where": where}
        yield Found("kafka-offset-reset", 0.9, (lost, *resets[:1]), facts, symptom=lost)


def data_loss(case: Case) -> Iterator[Found]:
    if lost := case.all("offset-data-loss"):
        yield Found("offset-data-loss", 0.85, tuple(lost), symptom=lost[0])


SIGNATURES = (broker_session_lost, offset_reset, data_loss)
