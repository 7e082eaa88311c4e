"""A job that the offset guard has parked: what `show` tells, and what `resume --offsets` makes of a choice."""

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from holdfast.cli.render.offsets import print_lost
from holdfast.kafka import Finding, Kind, Weight
from holdfast.kafka.check.offset_finding import Consequence
from holdfast.kafka.check.operator_choice import Loss, Lost, choice_in, encoded
from holdfast.model.job import Desired
from holdfast.model.phase import Phase
from holdfast.storage import KAFKA_CHOICE, KAFKA_LOST, Claims
from tests.cli.test_job_control import word
from tests.harness.checkpoint_trees import commit, lay_out, offsets
from tests.harness.command_line import answer, asked, refusal, run
from tests.harness.prepared_cluster import LaidOut

pytestmark = pytest.mark.real

LOST = Finding(
    Kind.RETENTION,
    Weight.STOP,
    "orders",
    "the log begins at 73: 23 records deleted before the job read them",
    0,
    saved=50,
    earliest=73,
    latest=90,
    lost=23,
    mends=73,
    keep=Consequence(0, 0),
    from_earliest=Consequence(0, 0),
    from_latest=Consequence(17, 0),
)
MOVED = Finding(Kind.MOVED, Weight.NOTE, "orders", "broker 2 leads it now", 1, saved=30, earliest=0, latest=40)


@pytest.fixture
def place(cluster: LaidOut) -> Path:
    cluster.submit("j1", name="words")
    cluster.settle("j1", Phase.PARKED, "orders-0: records are gone", attempt=1)
    place = cluster.storage / "checkpoints" / "j1"
    at = '{"orders":{"0":50,"1":30}}'
    files = {
        "offsets/0": offsets(0, source=at),
        "commits/0": commit(),
        "metadata": b'{"id":"6f8b9a1e-0000-4000-8000-000000000000"}',
    }
    lay_out(files, place)
    Claims(str(place)).leave_note(KAFKA_LOST, encoded(Lost(1.0, (Loss(str(place), 0, (LOST, MOVED)),))))
    return place


def test_show_has_the_table_and_the_choices(cluster: LaidOut, place: Path) -> None:
    said = answer(cluster, "show", "words")
    for words in ("retention overtook", "skips 17", "23", "73", "--offsets keep|earliest|latest|FILE"):
        assert words in said
    (source,) = asked(cluster, "show", "words")["kafka"]["sources"]
    first = source["findings"][0]
    assert (first["topic"], first["partition"], first["saved"], first["earliest"], first["latest"]) == ("orders", 0, 50, 73, 90)
    assert (first["lost"], first["from_latest"]) == (23, {"skipped": 17, "repeated": 0})


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_no_number_is_cut_off_however_narrow_the_terminal_is(columns: int) -> None:
    large = replace(LOST, saved=1742050, earliest=1742073, latest=1742090, mends=1742073)
    screen = Console(width=columns, file=io.StringIO())
    print_lost(screen, SimpleNamespace(id="j1"), Lost(1.0, (Loss("/c", 0, (large,)),)), 100.0)  # type: ignore[arg-type]
    assert isinstance(screen.file, io.StringIO)
    said = " ".join(screen.file.getvalue().split())
    for number in ("1742050", "1742073", "1742090", "23", "skips 17", "out of range"):
        assert number in said


def test_a_choice_is_left_for_the_next_attempt_with_a_savepoint_of_what_was(cluster: LaidOut, place: Path) -> None:
    before = {path: path.read_bytes() for path in place.glob("*/*") if "_holdfast" not in str(path)}
    said = answer(cluster, "resume", "words", "--offsets", "earliest")
    assert "chose 'earliest' for orders-0 (50 → 73)" in said and "is started again" in said
    choice = choice_in(Claims(str(place)).note(KAFKA_CHOICE))
    assert choice is not None
    (each,) = choice.sources[0].partitions
    assert (each.topic, each.partition, each.saved, each.to) == ("orders", 0, 50, 73)
    assert word(cluster)[0] is Desired.RUN
    assert {path: path.read_bytes() for path in before} == before, "only the next attempt writes to a checkpoint"
    assert [each["id"] for each in asked(cluster, "savepoint", "ls", "words")] == [choice.savepoint]


def test_a_file_names_offsets_one_by_one(cluster: LaidOut, place: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen.json"
    for offsets_said, objection in (
        ({"orders": {"0": 91}}, "91 is not in the log of orders-0, which goes from 73 to 90"),
        ({"orders": {"1": 20}}, "orders-1"),
        ({"other": {"0": 1}}, "only what the table names can be moved"),
        ({}, "expected offsets such as"),
    ):
        chosen.write_text(json.dumps(offsets_said))
        assert objection in refusal(run(cluster, "resume", "words", "--offsets", str(chosen)))
    chosen.write_text('{"orders": {"0": 80}}')
    assert "chose 'chosen.json' for orders-0 (50 → 80)" in answer(cluster, "resume", "words", "--offsets", str(chosen))


def test_what_cannot_be_chosen_is_a_sentence_and_changes_nothing(cluster: LaidOut, place: Path, tmp_path: Path) -> None:
    assert "is neither keep, earliest, latest nor a file" in refusal(run(cluster, "resume", "words", "--offsets", "newest"))
    (tmp_path / "noise").write_bytes(b"\xff\x00")
    assert "it is no text" in refusal(run(cluster, "resume", "words", "--offsets", str(tmp_path / "noise")))
    cluster.submit("j2", name="fine")
    cluster.settle("j2", Phase.PARKED, "a person stopped it", attempt=1)
    assert "nothing was found wrong with the Kafka offsets" in refusal(run(cluster, "resume", "fine", "--offsets", "keep"))
    cluster.submit("j3", name="running")
    assert "is not parked" in refusal(run(cluster, "resume", "running", "--offsets", "keep"))
    assert Claims(str(place)).note(KAFKA_CHOICE) is None
    assert word(cluster)[2] == 0, "nobody has said anything"
