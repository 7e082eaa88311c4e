"""Detectors of brokers that lose their registration and of consumers that lose their offset."""

from collections.abc import Iterator

from holdfast.explain.diagnose.diagnosis import SignatureMatch
from holdfast.explain.timeline.timeline import Timeline


def detect_broker_session_lost(timeline: Timeline) -> Iterator[SignatureMatch]:
    for expired in timeline.all("kafka-session-expired", "kafka-broker-fenced"):
        sessions = timeline.near(expired, 60_000, 5000, "client-expired", same="component")
        again = timeline.near(expired, 0, 60_000, "kafka-registered-again", same="component")
        fenced = expired.value("broker")
        facts = {
            "broker": f"broker {fenced}" if fenced else expired.component,
            "session": f" ({sessions[0].value('session')})" if sessions else "",
            "back": f" It registered again {again[0].begin_ms - expired.begin_ms} ms later." if again else "",
        }
        yield SignatureMatch("kafka-broker-session-lost", 0.9, (expired, *sessions[:1], *again[:1]), facts, symptom=expired)


def detect_offset_reset(timeline: Timeline) -> Iterator[SignatureMatch]:
    for lost in timeline.all("kafka-offset-out-of-range"):
        partition = lost.value("partition")
        resets = timeline.near(lost, 0, 60_000, "kafka-offset-reset", same="partition")
        if not resets and not lost.value("reset"):
            continue  # the consumer stopped and reported it
        where = f" It continued from {resets[0].value('offset')}." if resets else ""
        facts = {"partition": partition, "offset": lost.value("offset"), "where": where}
        yield SignatureMatch("kafka-offset-reset", 0.9, (lost, *resets[:1]), facts, symptom=lost)


def detect_data_loss(timeline: Timeline) -> Iterator[SignatureMatch]:
    if lost := timeline.all("offset-data-loss"):
        yield SignatureMatch("offset-data-loss", 0.85, tuple(lost), symptom=lost[0])


DETECTORS = (detect_broker_session_lost, detect_offset_reset, detect_data_loss)
