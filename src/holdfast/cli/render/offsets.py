"""A job parked because of its Kafka offsets: the table for `holdfast show`, and what a person chooses (`resume --offsets`).

The choice is one file beside the checkpoint. The next attempt acts on it: nobody else writes to a checkpoint.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table

from holdfast.cli.commands.savepoint import make_savepoint
from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.times import age, iso
from holdfast.client.identity import identity
from holdfast.client.session import read
from holdfast.client.target import Target
from holdfast.client.upload import storage_location
from holdfast.errors import Refused
from holdfast.kafka.check.checkpoint_offsets import Partition, positions
from holdfast.kafka.check.findings_table import COLUMNS, LEGEND, ROWS_MAX, block, row
from holdfast.kafka.check.offset_finding import Finding, Weight
from holdfast.kafka.check.offset_rewrite import EARLIEST, KEEP, LATEST, read_choice
from holdfast.kafka.check.operator_choice import Choice, Loss, Lost, SourceChoice, choose, divided, encoded, lost_in
from holdfast.model.phase import Phase
from holdfast.runner.driver_command import checkpoint_root
from holdfast.storage import KAFKA_CHOICE, KAFKA_LOST, Checkpoints, Claims, in_storage
from holdfast.zk.records.job_reader import Job, find_job

WIDE = 10_000
WORDS = (KEEP, EARLIEST, LATEST)


# What was found


def as_json(lost: Lost | None) -> dict[str, Any] | None:
    """Scripts rely on these keys: those of `kafka.finding.Finding`."""
    if lost is None:
        return None
    sources = [
        {"location": source.location, "source": source.number, "findings": [asdict(finding) for finding in source.findings]}
        for source in lost.sources
    ]
    return {"found_at": iso(lost.wall), "sources": sources}


def print_lost(screen: Console, job: Job, lost: Lost, now: float) -> None:
    found = sorted(lost.findings, key=_gravest)
    screen.print(f"its Kafka offsets, {age(lost.wall, now)} ago", style="bold")
    table = Table(*(Column(name, no_wrap=True) for name in COLUMNS), box=None, pad_edge=False)
    for finding in found[:ROWS_MAX]:
        table.add_row(*map(plain, row(finding)))
    if Measurement.get(screen, screen.options.update(width=WIDE), table).maximum <= screen.width:
        screen.print(table)
    else:  # a number that is cut off is worse than none
        for first, *rest in map(block, found[:ROWS_MAX]):
            screen.print(plain(first), *(f"\n  {plain(line)}" for line in rest), sep="")
    if len(found) > ROWS_MAX:
        screen.print(f"and {len(found) - ROWS_MAX:,} more (--json has all)")
    screen.print(LEGEND, style="dim")
    for finding in found[:3]:
        screen.print(f"  {plain(str(finding))}")
    screen.print(
        f"'holdfast resume {job.id} --offsets keep|earliest|latest|FILE' goes on from there; FILE names them one by one:"
    )
    screen.print('  {"topic": {"0": 17}}')


def _gravest(finding: Finding) -> tuple[int, str, int]:
    return -finding.weight, finding.topic, finding.partition or 0


# What is chosen


def leave_choice(target: Target, text: str, word: str) -> Choice:
    """For a job that is parked, and with a savepoint of what was. Raises Refused."""
    job = read(target, lambda client: find_job(client, target.paths, text))
    if job.phase is not Phase.PARKED or job.lease is not None or job.spec is None:
        raise Refused(f"{job.label} is not parked ({job.phase}: {job.reason}): there is nothing to choose")
    storage = storage_location(target)
    claims = Claims(in_storage(checkpoint_root(job.spec, job.id, storage), storage))
    lost = lost_in(claims.note(KAFKA_LOST))
    if lost is None:
        raise Refused(
            f"nothing was found wrong with the Kafka offsets of {job.label}: 'holdfast resume {job.id}' starts it again"
        )
    wrong = Lost(lost.wall, tuple(source for source in lost.sources if any(f.weight > Weight.NOTE for f in source.findings)))
    sources = _chosen(wrong, storage, word)
    made = make_savepoint(target, job)
    choice = Choice(identity(), word if word in WORDS else Path(word).name, time.time(), made.id, sources)
    claims.leave_note(KAFKA_CHOICE, encoded(choice))
    click.echo(f"{plain(job.label)}: {plain(choice.told())}")
    return choice


def _chosen(lost: Lost, storage: str, word: str) -> tuple[SourceChoice, ...]:
    if word in WORDS:
        return tuple(_for_one(source, storage, word) for source in lost.sources)
    parts = divided(lost, read_choice(_file(word)))
    return tuple(_for_one(source, storage, part) for source, part in zip(lost.sources, parts, strict=True))


def _for_one(source: Loss, storage: str, word: str | Mapping[Partition, int]) -> SourceChoice:
    standing = Checkpoints(in_storage(source.location, storage)).standing()
    saved = positions(standing.query, source.number, standing.first(source.folder)) if standing is not None else None
    if saved is None:
        raise Refused(f"{source.location} has no offsets of Kafka any more")
    return choose(source, saved, word)


def _file(word: str) -> str:
    try:
        return Path(word).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise Refused(f"'{word}' is neither {', '.join(WORDS)} nor a file that can be read: {why}") from error
