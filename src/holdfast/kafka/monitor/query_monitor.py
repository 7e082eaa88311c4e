"""One query, and a look at each of its Kafka sources. Blocks."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.checkpoint import Standing
from holdfast.errors import HoldfastError, Refused, Unavailable
from holdfast.kafka.check.broker_snapshot import Sighted
from holdfast.kafka.check.checkpoint_offsets import Saved, positions
from holdfast.kafka.check.client_options import Client, client_of, refusals
from holdfast.kafka.check.lag import Lag, lag
from holdfast.kafka.check.last_known import Kept, Memory, kept_in, remember
from holdfast.kafka.check.offset_check import judge
from holdfast.kafka.check.offset_finding import Finding, Kind
from holdfast.kafka.check.offset_rewrite import rewritten, to_read
from holdfast.kafka.check.operator_choice import Choice, Loss, Lost, SourceChoice, choice_in, encoded
from holdfast.kafka.check.park_policy import Decision, Verdict
from holdfast.kafka.monitor.monitor_settings import Settings
from holdfast.model.codec import Garbage, NewerSchema
from holdfast.storage import KAFKA, KAFKA_CHOICE, KAFKA_LOST, Checkpoints, Claims, in_storage

UNREADABLE_AGAIN_S = 5.0
REASON_MAX = 200
"""Of the finding in a reason, which has to have room for what to do about it."""


@dataclass(frozen=True, slots=True)
class Source:
    number: int
    """Of its line in a file of offsets."""
    folder: int
    """Of its own notes."""
    client: Client


class Post:
    def __init__(self, settings: Settings, query: Mapping[str, Any]) -> None:
        """`query` is what the driver tells of it. Raises Refused for options that the guard cannot live with."""
        self.location = str(query["location"])
        self.label = str(query["label"])
        self.lag: list[Lag] = []
        """Of each source, at the last look."""
        self.note = ""
        self.due_at = 0.0
        self._settings = settings
        self._patience = settings.patience()
        self._sources = [
            Source(int(each["number"]), int(each["folder"]), _client(each["options"])) for each in query["sources"]
        ]
        # In this process: a storage that hangs harms nobody else here, and a process for each call would cost a second of CPU.
        place = in_storage(self.location, settings.storage) if self.location else None
        self._checkpoints = Checkpoints(place, apart=False) if place is not None else None
        self._claims = Claims(in_storage(settings.checkpoint, settings.storage), apart=False)
        self._fresh = False
        """Whether this very attempt has begun the query: then there is nothing that could have been missed before."""
        self._chosen = False
        """Whether a person has just told it where to go on."""
        self._findings: dict[int, tuple[Finding, ...]] = {}

    # Before it starts

    def act_on_choice(self) -> str:
        """What a person chose takes effect. Gives what people have to know; empty if there was no choice."""
        try:
            choice = choice_in(self._claims.note(KAFKA_CHOICE))
            own = choice.at(self.location) if choice is not None else ()
            for source in own:
                self._move(source)
            self._chosen = bool(own)
        except (Garbage, NewerSchema) as error:
            raise Refused(f"what was chosen with --offsets cannot be read ({error}): choose again") from error
        if choice is None or not own:
            return ""
        rest = choice.without(self.location)
        if rest.sources:
            self._claims.leave_note(KAFKA_CHOICE, encoded(rest))
        else:
            self._claims.drop_note(KAFKA_CHOICE)
        return Choice(choice.by, choice.word, choice.wall, choice.savepoint, own).told()

    def _move(self, chosen: SourceChoice) -> None:
        """What has been done already, before a crash, is found done."""
        standing = self._standing()
        if standing is None or self._checkpoints is None:
            raise Refused(f"what was chosen with --offsets is about {self.location}, and there is no checkpoint any more")
        files = {path: standing.text(path) or "" for path in to_read(standing.query, chosen.folder)}
        changed = rewritten(standing.query, chosen.number, chosen.moves(), files, folder=chosen.folder)
        moved = chosen.outdated(_saved(standing, chosen.number, chosen.folder) or {})
        if changed and moved is not None:
            raise Refused(f"{moved} is not where it was when its offset was chosen: choose again")
        self._checkpoints.rewrite(changed)
        kept = self._kept()
        memory = kept.memory(self.location, chosen.number).without({each.name for each in chosen.partitions})
        self._claims.leave_note(KAFKA, kept.with_another(self.location, chosen.number, memory).encoded())

    # Looking

    def look(self, now: float) -> Decision:
        """What is to be done. The checkpoint may be out of reach: that is waited for as well."""
        try:
            findings = self._look()
        except Unavailable as error:
            note = f"its checkpoint cannot be read: {error}"
            return self._decided(Decision(Verdict.WAIT, note, UNREADABLE_AGAIN_S), now)
        decision = self._decided(self._patience.decide(findings, now), now)
        if decision.verdict is Verdict.PARK:
            self._leave_lost()
        return decision

    def _decided(self, decision: Decision, now: float) -> Decision:
        self.due_at = now + decision.again_s
        self.note = decision.note
        return decision

    def _look(self) -> list[Finding]:
        standing = self._standing()
        if standing is None:
            self._fresh = True
            return []
        kept = before = self._kept()
        self.lag, self._findings = [], {}
        for source in self._sources:
            saved = _saved(standing, source.number, source.folder)
            if saved:
                kept = self._looked_at(source, saved, kept)
        if kept != before:
            self._claims.leave_note(KAFKA, kept.encoded())
        return [finding for findings in self._findings.values() for finding in findings]

    def _looked_at(self, source: Source, saved: Saved, kept: Kept) -> Kept:
        memory = kept.memory(self.location, source.number)
        sighted = _sight(source.client, saved, memory.epochs())
        findings = judge(saved, memory, sighted)
        self._findings[source.number] = tuple(finding for finding in findings if not self._begun_here(finding, memory))
        self.lag.append(lag(saved, sighted))
        return kept.with_another(self.location, source.number, remember(memory, saved, sighted, findings))

    def _begun_here(self, finding: Finding, memory: Memory) -> bool:
        """A first sight, but of a topic that this attempt has begun with, or of offsets that a person has just chosen."""
        begun = self._chosen or (self._fresh and memory.topic(finding.topic) is None)
        return begun and finding.kind is Kind.FIRST_SIGHT

    def _standing(self) -> Standing | None:
        return self._checkpoints.standing() if self._checkpoints is not None else None

    def _kept(self) -> Kept:
        kept, _ = kept_in(self._claims.note(KAFKA))
        return kept

    # What is left for people

    def _leave_lost(self) -> None:
        folders = {source.number: source.folder for source in self._sources}
        losses = (
            Loss(self.location, number, findings, folders[number]) for number, findings in self._findings.items() if findings
        )
        self._claims.leave_note(KAFKA_LOST, encoded(Lost(time.time(), tuple(losses))))

    def forget_lost(self) -> None:
        """All is in order: what was found before is history."""
        self._claims.drop_note(KAFKA_LOST)

    def parked_because(self) -> str:
        found = sorted(
            (finding for findings in self._findings.values() for finding in findings), key=lambda finding: -finding.weight
        )
        first = str(found[0]) if found else "its offsets are not in order"
        first = first if len(first) <= REASON_MAX else f"{first[: REASON_MAX - 1]}…"
        more = f" ({len(found) - 1:,} more findings)" if len(found) > 1 else ""
        return f"{first}{more}; 'holdfast show {self._settings.job}' has the table and the choices"


def _client(options: Any) -> Client:
    said = {str(key): str(value) for key, value in dict(options).items()}
    if sentences := refusals(said):
        raise Refused("; ".join(sentences))
    return client_of(said)


def _saved(standing: Standing, number: int, folder: int) -> Saved | None:
    return positions(standing.query, number, standing.first(folder))


def _sight(client: Client, saved: Saved, epochs: Mapping[Any, int]) -> Sighted:
    from holdfast.kafka.broker import look  # raises Refused where confluent-kafka is not installed

    try:
        return look(client, {partition.topic for partition in saved}, epochs)
    except Refused:
        raise
    except HoldfastError as error:
        return Sighted(problem=str(error))
