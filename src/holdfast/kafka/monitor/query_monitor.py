"""Offset check of one query and its Kafka sources. Blocks."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.checkpoint import QueryPosition
from holdfast.driver_protocol.kafka_messages import MonitoredQuery
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.kafka.check.broker_snapshot import BrokerSnapshot
from holdfast.kafka.check.checkpoint_offsets import SavedOffsets, read_positions
from holdfast.kafka.check.client_options import ClientOptions, find_unsafe_options, translate_options
from holdfast.kafka.check.consumer_lag import Lag, compute_lag
from holdfast.kafka.check.last_known import JobLastKnown, LastKnown, decode_last_known, update_last_known
from holdfast.kafka.check.offset_check import check_offsets
from holdfast.kafka.check.offset_finding import FindingKind, OffsetFinding
from holdfast.kafka.check.offset_rewrite import files_to_rewrite, rewrite_offsets
from holdfast.kafka.check.operator_choice import (
    OffsetChoice,
    ParkFindings,
    SourceChoice,
    SourceFindings,
    decode_choice,
    encode_record,
)
from holdfast.kafka.check.park_policy import ParkDecision, ParkVerdict
from holdfast.kafka.monitor.monitor_settings import MonitorSettings
from holdfast.model.codec import MalformedRecord, NewerSchema
from holdfast.storage import (
    KAFKA_CHOICE_FILE,
    KAFKA_LAST_KNOWN_FILE,
    KAFKA_PARK_FINDINGS_FILE,
    Checkpoints,
    Claims,
    checkpoint_location,
)

CHECKPOINT_RETRY_S = 5.0
REASON_MAX = 200
"""Characters of the finding in a park reason, which must also have room for the next command."""


@dataclass(frozen=True, slots=True)
class KafkaSource:
    number: int
    """Index of the source in `offsets/N`."""
    folder: int
    """Number of the source's folder in `sources/`."""
    client: ClientOptions
    name: str = ""
    """Name that the script gave the source, which is also its folder; empty if it has none."""


class QueryMonitor:
    def __init__(self, settings: MonitorSettings, query: MonitoredQuery) -> None:
        """`query` is the driver's description. Raise Refused for options that conflict with the offset check."""
        self.location = query.location
        self.lag: list[Lag] = []
        """Lag of each source at the last check."""
        self.note = ""
        self.due_at = 0.0
        self._settings = settings
        self._policy = settings.park_policy()
        self._sources = [
            KafkaSource(int(each["number"]), int(each["folder"]), _client_options(each["options"]), str(each.get("name") or ""))
            for each in query.sources
        ]
        # In-process storage calls: a storage that hangs blocks only this process, and a subprocess costs a second of CPU.
        place = checkpoint_location(self.location, settings.storage) if self.location else None
        self._checkpoints = Checkpoints(place, in_subprocess=False) if place is not None else None
        self._claims = Claims(checkpoint_location(settings.checkpoint, settings.storage), in_subprocess=False)
        self._started_without_checkpoint = False
        """True if the query had no checkpoint when this attempt started."""
        self._choice_applied = False
        """True if this attempt applied an operator's choice."""
        self._findings: dict[int, tuple[OffsetFinding, ...]] = {}

    # Before the query starts

    def apply_choice(self) -> str:
        """Apply the operator's choice. Return a sentence about it, or "" without a choice. Raise Refused."""
        try:
            choice = decode_choice(self._claims.read_metadata(KAFKA_CHOICE_FILE))
            own = choice.for_location(self.location) if choice is not None else ()
            for source in own:
                self._apply_to_source(source)
            self._choice_applied = bool(own)
        except (MalformedRecord, NewerSchema) as error:
            raise Refused(f"the choice made with --offsets is unreadable ({error}): {self._choose_again}") from error
        if choice is None or not own:
            return ""
        rest = choice.without_location(self.location)
        if rest.sources:
            self._claims.write_metadata(KAFKA_CHOICE_FILE, encode_record(rest))
        else:
            self._claims.remove_metadata(KAFKA_CHOICE_FILE)
        return OffsetChoice(choice.by, choice.word, choice.wall, choice.savepoint, own).describe()

    @property
    def _choose_again(self) -> str:
        return f"choose again with 'holdfast resume {self._settings.job} --offsets …'"

    def _apply_to_source(self, chosen: SourceChoice) -> None:
        """Rewrite the source's offsets. Idempotent: repeating it after a crash changes nothing."""
        position = self._position()
        if position is None or self._checkpoints is None:
            raise Refused(f"the choice made with --offsets is for {self.location}, whose checkpoint no longer exists")
        files = {path: position.text(path) or "" for path in files_to_rewrite(position.query, chosen.folder, chosen.name)}
        changed = rewrite_offsets(position.query, chosen.number, chosen.moves(), files, folder=chosen.folder, name=chosen.name)
        saved = _read_saved(position, chosen.number, chosen.folder, chosen.name)
        outdated = chosen.first_outdated_partition(saved or {})
        if changed and outdated is not None:
            raise Refused(f"the saved offset of {outdated} has changed since the choice was made: {self._choose_again}")
        self._checkpoints.rewrite_files(changed)
        record = self._load_last_known()
        last_known = record.last_known_of(self.location, chosen.number, chosen.name).without_partitions(
            {each.topic_partition for each in chosen.partitions}
        )
        self._claims.write_metadata(
            KAFKA_LAST_KNOWN_FILE, record.with_source(self.location, chosen.number, last_known, chosen.name).encode()
        )

    # Checks

    def check(self, now: float) -> ParkDecision:
        """Check the offsets and decide. An unreachable checkpoint is a reason to wait."""
        try:
            findings = self._check_sources()
        except Unavailable as error:
            note = f"the checkpoint cannot be read: {error}"
            return self._record(ParkDecision(ParkVerdict.WAIT, note, CHECKPOINT_RETRY_S), now)
        decision = self._record(self._policy.decide(findings, now), now)
        if decision.verdict is ParkVerdict.PARK:
            self._store_findings()
        return decision

    def _record(self, decision: ParkDecision, now: float) -> ParkDecision:
        self.due_at = now + decision.next_check_s
        self.note = decision.note
        return decision

    def _check_sources(self) -> list[OffsetFinding]:
        position = self._position()
        if position is None:
            self._started_without_checkpoint = True
            return []
        record = before = self._load_last_known()
        self.lag, self._findings = [], {}
        for source in self._sources:
            saved = _read_saved(position, source.number, source.folder, source.name)
            if saved:
                record = self._check_source(source, saved, record)
        if record != before:
            self._claims.write_metadata(KAFKA_LAST_KNOWN_FILE, record.encode())
        return [finding for findings in self._findings.values() for finding in findings]

    def _check_source(self, source: KafkaSource, saved: SavedOffsets, record: JobLastKnown) -> JobLastKnown:
        last_known = record.last_known_of(self.location, source.number, source.name)
        snapshot = _fetch_snapshot(source.client, saved, last_known.leader_epochs())
        findings = check_offsets(saved, last_known, snapshot)
        self._findings[source.number] = tuple(each for each in findings if not self._is_expected(each, last_known))
        self.lag.append(compute_lag(saved, snapshot))
        updated = update_last_known(last_known, saved, snapshot, findings)
        return record.with_source(self.location, source.number, updated, source.name)

    def _is_expected(self, finding: OffsetFinding, last_known: LastKnown) -> bool:
        """Return True for a FIRST_CHECK finding that this attempt itself causes: a new topic, or an operator's choice."""
        is_new = self._started_without_checkpoint and last_known.topic(finding.topic) is None
        return finding.kind is FindingKind.FIRST_CHECK and (is_new or self._choice_applied)

    def _position(self) -> QueryPosition | None:
        return self._checkpoints.read_position() if self._checkpoints is not None else None

    def _load_last_known(self) -> JobLastKnown:
        return decode_last_known(self._claims.read_metadata(KAFKA_LAST_KNOWN_FILE))

    # Records and reasons for people

    def _store_findings(self) -> None:
        known = {source.number: source for source in self._sources}
        sources = (
            SourceFindings(self.location, number, findings, known[number].folder, known[number].name)
            for number, findings in self._findings.items()
            if findings
        )
        self._claims.write_metadata(KAFKA_PARK_FINDINGS_FILE, encode_record(ParkFindings(time.time(), tuple(sources))))

    def clear_park_findings(self) -> None:
        """Delete the findings of an earlier park: the offsets are valid again."""
        self._claims.remove_metadata(KAFKA_PARK_FINDINGS_FILE)

    def park_reason(self) -> str:
        findings = [finding for findings in self._findings.values() for finding in findings]
        findings.sort(key=lambda finding: -finding.weight)
        first = str(findings[0]) if findings else "the Kafka offsets are not valid"
        first = first if len(first) <= REASON_MAX else f"{first[: REASON_MAX - 1]}…"
        more = f" ({len(findings) - 1:,} more findings)" if len(findings) > 1 else ""
        return f"{first}{more}; run 'holdfast show {self._settings.job}' for the table and the choices"


def _client_options(options: Any) -> ClientOptions:
    texts = {str(key): str(value) for key, value in dict(options).items()}
    if messages := find_unsafe_options(texts):
        raise Refused("; ".join(messages))
    return translate_options(texts)


def _read_saved(position: QueryPosition, number: int, folder: int, name: str) -> SavedOffsets | None:
    return read_positions(position.query, number, position.starting_offsets(name or str(folder)), name=name)


def _fetch_snapshot(client: ClientOptions, saved: SavedOffsets, epochs: Mapping[Any, int]) -> BrokerSnapshot:
    from holdfast.kafka.broker import fetch_snapshot  # raises Refused if confluent-kafka is not installed

    try:
        return fetch_snapshot(client, {partition.topic for partition in saved}, epochs)
    except Refused:
        raise
    except HoldfastError as error:
        return BrokerSnapshot(problem=str(error))
