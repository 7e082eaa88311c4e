"""Brokers that lose their registration, and consumers that lose their place."""

from collections.abc import Iterator

from holdfast.explain.diagnose.case import Case, Diagnosis


def broker_session_lost(case: Case) -> Iterator[Diagnosis]:
    if not (expired := case.all("kafka-session-expired", "kafka-broker-fenced")):
        return
    sessions = case.near(expired[0], 60_000, 5000, "client-expired")
    again = case.near(expired[0], 0, 60_000, "kafka-registered-again")
    session = f" (session {sessions[0].of('session')})" if sessions else ""
    back = f" It registered itself again {(again[0].begin_ms - expired[0].begin_ms)} ms later." if again else ""
    yield Diagnosis(
        signature="kafka-broker-session-lost",
        title=f"{expired[0].component} lost its registration",
        explanation=f"The session of {expired[0].component} expired{session}, and its partitions got other leaders.{back}",
        advice="Find why the broker was silent. A session timeout of 6 s is shorter than many pauses: 18 s is the default since "
        "Kafka 2.5.",
        confidence=0.9,
        evidence=tuple(sorted((*expired, *sessions[:1], *again[:1]), key=lambda one: one.begin_ms)),
    )


def offset_reset(case: Case) -> Iterator[Diagnosis]:
    for lost in case.all("kafka-offset-out-of-range"):
        resets = [
            one for one in case.near(lost, 0, 60_000, "kafka-offset-reset") if one.of("partition") == lost.of("partition")
        ]
        where = f" It went on from {resets[0].of('offset')}." if resets else ""
        yield Diagnosis(
            signature="kafka-offset-reset",
            title=f"a consumer of {lost.of('partition')} lost its place, and went elsewhere without a word",
            explanation=f"Offset {lost.of('offset')} of {lost.of('partition')} was not there when the consumer asked for it, "
            f"and auto.offset.reset sent it somewhere else.{where} Records were read twice or not at all.",
            advice="Set auto.offset.reset to none, so that it stops instead; compare the offsets before and after to see what was "
            "repeated or skipped.",
            confidence=0.9,
            evidence=(lost, *resets[:1]),
            issues=("KAFKA-5600", "KAFKA-6189", "FLINK-39888"),
        )


def data_loss(case: Case) -> Iterator[Diagnosis]:
    if lost := case.all("offset-data-loss"):
        yield Diagnosis(
            signature="offset-data-loss",
            title="records are gone from Kafka that a job had yet to read",
            explanation="The offset in the job's checkpoint is not in the topic any more.",
            advice="Compare the saved offsets with the topic's, and decide where to go on. Do not set failOnDataLoss to false: "
            "it skips without a word.",
            confidence=0.85,
            evidence=tuple(lost),
        )


SIGNATURES = (broker_session_lost, offset_reset, data_loss)
