"""Record from which Kafka offsets a parked job continues.

The choice is one file in the checkpoint's `_holdfast` folder. The next attempt carries it out: only drivers and their runners
write to a checkpoint.
"""

import json
import time
from collections.abc import Mapping
from pathlib import Path

from holdfast.client.callbacks import Callbacks
from holdfast.client.connection.identity import current_user
from holdfast.client.connection.storage_location import read_storage_location
from holdfast.client.connection.target import Target
from holdfast.client.jobs.savepoints import make_savepoint
from holdfast.errors import Refused
from holdfast.kafka.check.checkpoint_offsets import Partition, read_positions
from holdfast.kafka.check.offset_finding import Severity
from holdfast.kafka.check.offset_rewrite import EARLIEST, KEEP, LATEST, parse_chosen_offsets
from holdfast.kafka.check.operator_choice import (
    OffsetChoice,
    ParkFindings,
    SourceChoice,
    SourceFindings,
    choose_for_source,
    decode_park_findings,
    encode_record,
    split_by_source,
)
from holdfast.model.phase import Phase
from holdfast.runner.execution.driver_command import checkpoint_root
from holdfast.storage import KAFKA_CHOICE_FILE, KAFKA_PARK_FINDINGS_FILE, Checkpoints, Claims, checkpoint_location
from holdfast.zk.records.stored_job import StoredJob

WORDS = (KEEP, EARLIEST, LATEST)

Offsets = str | Path | Mapping[str, Mapping[int, int]]
"""`keep`, `earliest` or `latest`; a JSON file; or offsets by topic and partition."""


def choose_offsets(target: Target, job: StoredJob, offsets: Offsets, callbacks: Callbacks) -> OffsetChoice:
    """Make a savepoint of a parked job, then record the offsets from which it continues.

    Raise Refused if the job is not parked because of its Kafka offsets, or if the offsets do not fit the findings.
    """
    if job.phase is not Phase.PARKED or job.lease is not None or job.spec is None:
        raise Refused(f"{job.label} is not parked ({job.phase}: {job.reason}), so --offsets has no effect on it")
    storage = read_storage_location(target)
    claims = Claims(checkpoint_location(checkpoint_root(job.spec, job.id, storage), storage))
    lost = decode_park_findings(claims.read_metadata(KAFKA_PARK_FINDINGS_FILE))
    if lost is None:
        raise Refused(
            f"{job.label} is not parked because of its Kafka offsets: resume it without --offsets, 'holdfast resume {job.id}'"
        )
    sources = _choose(_without_notes(lost), storage, offsets)
    savepoint = make_savepoint(target, job, callbacks)
    choice = OffsetChoice(current_user(), _choice_name(offsets), time.time(), savepoint.id, sources)
    claims.write_metadata(KAFKA_CHOICE_FILE, encode_record(choice))
    return choice


def _without_notes(lost: ParkFindings) -> ParkFindings:
    """Drop the sources that have no finding worse than a note."""
    sources = (source for source in lost.sources if any(finding.weight > Severity.NOTE for finding in source.findings))
    return ParkFindings(lost.wall, tuple(sources))


def _choice_name(offsets: Offsets) -> str:
    if isinstance(offsets, Mapping):
        return "offsets"
    return str(offsets) if offsets in WORDS else Path(offsets).name


def _choose(lost: ParkFindings, storage: str, offsets: Offsets) -> tuple[SourceChoice, ...]:
    if isinstance(offsets, str) and offsets in WORDS:
        return tuple(_choose_for_source(source, storage, offsets) for source in lost.sources)
    text = json.dumps(offsets) if isinstance(offsets, Mapping) else _read_file(offsets)
    parts = split_by_source(lost, parse_chosen_offsets(text))
    return tuple(_choose_for_source(source, storage, part) for source, part in zip(lost.sources, parts, strict=True))


def _choose_for_source(source: SourceFindings, storage: str, word: str | Mapping[Partition, int]) -> SourceChoice:
    position = Checkpoints(checkpoint_location(source.location, storage)).read_position()
    saved = (
        read_positions(
            position.query, source.number, position.starting_offsets(source.name or str(source.folder)), name=source.name
        )
        if position is not None
        else None
    )
    if saved is None:
        raise Refused(f"the checkpoint {source.location} contains no Kafka offsets any more")
    return choose_for_source(source, saved, word)


def _read_file(file: str | Path) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not a text file"
        raise Refused(f"'{file}' is neither {', '.join(WORDS)} nor a file that can be read: {why}") from error
