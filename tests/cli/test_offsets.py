"""Job that the offset check has parked: the output of `show`, and the choices of `resume --offsets`."""

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from holdfast.cli.render.offsets import print_lost
from holdfast.kafka.check.offset_finding import FindingKind, OffsetFinding, ResumeImpact, Severity
from holdfast.kafka.check.operator_choice import ParkFindings, SourceFindings, decode_choice, encode_record
from holdfast.model.job import Desired
from holdfast.model.phase import Phase
from holdfast.storage import KAFKA_CHOICE_FILE, KAFKA_PARK_FINDINGS_FILE, Claims
from tests.cli.test_job_control import word
from tests.harness.checkpoint_trees import commit_file, offsets_file, write_files
from tests.harness.command_line import error_message, run_command, run_json, run_ok
from tests.harness.prepared_cluster import PreparedCluster

pytestmark = pytest.mark.real

LOST = OffsetFinding(
    FindingKind.RETENTION,
    Severity.STOP,
    "orders",
    "the log starts at offset 73: 23 records deleted before the job read them",
    0,
    saved=50,
    earliest=73,
    latest=90,
    lost=23,
    mends=73,
    keep=ResumeImpact(0, 0),
    from_earliest=ResumeImpact(0, 0),
    from_latest=ResumeImpact(17, 0),
)
MOVED = OffsetFinding(
    FindingKind.NEW_LEADER, Severity.NOTE, "orders", "broker 2 leads it now", 1, saved=30, earliest=0, latest=40
)


@pytest.fixture
def place(cluster: PreparedCluster) -> Path:
    cluster.submit("j1", name="words")
    cluster.write_state("j1", Phase.PARKED, "orders-0: records are gone", attempt=1)
    place = cluster.storage / "checkpoints" / "j1"
    at = '{"orders":{"0":50,"1":30}}'
    files = {
        "offsets/0": offsets_file(0, source=at),
        "commits/0": commit_file(),
        "metadata": b'{"id":"6f8b9a1e-0000-4000-8000-000000000000"}',
    }
    write_files(files, place)
    Claims(str(place)).write_metadata(
        KAFKA_PARK_FINDINGS_FILE, encode_record(ParkFindings(1.0, (SourceFindings(str(place), 0, (LOST, MOVED)),)))
    )
    return place


def test_show_prints_offset_table_and_choices(cluster: PreparedCluster, place: Path) -> None:
    printed_text = run_ok(cluster, "show", "words")
    for words in ("deleted by retention", "skips 17", "23", "73", "--offsets keep|earliest|latest|FILE"):
        assert words in printed_text
    (source,) = run_json(cluster, "show", "words")["kafka"]["sources"]
    first = source["findings"][0]
    assert (first["topic"], first["partition"], first["saved"], first["earliest"], first["latest"]) == ("orders", 0, 50, 73, 90)
    assert (first["lost"], first["from_latest"]) == (23, {"skipped": 17, "repeated": 0})


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_numbers_are_never_cut_on_narrow_terminals(columns: int) -> None:
    large = replace(LOST, saved=1742050, earliest=1742073, latest=1742090, mends=1742073)
    screen = Console(width=columns, file=io.StringIO())
    print_lost(screen, SimpleNamespace(id="j1"), ParkFindings(1.0, (SourceFindings("/c", 0, (large,)),)), 100.0)  # type: ignore[arg-type]  # only the id is used
    assert isinstance(screen.file, io.StringIO)
    printed_text = " ".join(screen.file.getvalue().split())
    for number in ("1742050", "1742073", "1742090", "23", "skips 17", "out of range"):
        assert number in printed_text


def test_choice_is_recorded_after_a_savepoint(cluster: PreparedCluster, place: Path) -> None:
    before = {path: path.read_bytes() for path in place.glob("*/*") if "_holdfast" not in str(path)}
    printed_text = run_ok(cluster, "resume", "words", "--offsets", "earliest")
    assert (
        "chose 'earliest' for orders-0 (50 → 73)" in printed_text and "starts as soon as a node has free slots" in printed_text
    )
    choice = decode_choice(Claims(str(place)).read_metadata(KAFKA_CHOICE_FILE))
    assert choice is not None
    (each,) = choice.sources[0].partitions
    assert (each.topic, each.partition, each.saved, each.to) == ("orders", 0, 50, 73)
    assert word(cluster)[0] is Desired.RUN
    assert {path: path.read_bytes() for path in before} == before, "only the next attempt writes to a checkpoint"
    assert [each["id"] for each in run_json(cluster, "savepoint", "ls", "words")] == [choice.savepoint]


def test_file_chooses_offsets_per_partition(cluster: PreparedCluster, place: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen.json"
    for offsets_said, objection in (
        ({"orders": {"0": 91}}, "91 is outside the log of orders-0, which goes from 73 to 90"),
        ({"orders": {"1": 20}}, "orders-1"),
        ({"other": {"0": 1}}, "only partitions in the findings table can be moved"),
        ({}, "expected offsets such as"),
    ):
        chosen.write_text(json.dumps(offsets_said))
        assert objection in error_message(run_command(cluster, "resume", "words", "--offsets", str(chosen)))
    chosen.write_text('{"orders": {"0": 80}}')
    assert "chose 'chosen.json' for orders-0 (50 → 80)" in run_ok(cluster, "resume", "words", "--offsets", str(chosen))


def test_invalid_choice_is_refused_and_changes_nothing(cluster: PreparedCluster, place: Path, tmp_path: Path) -> None:
    assert "is neither keep, earliest, latest nor a file" in error_message(
        run_command(cluster, "resume", "words", "--offsets", "newest")
    )
    (tmp_path / "noise").write_bytes(b"\xff\x00")
    assert "it is not a text file" in error_message(
        run_command(cluster, "resume", "words", "--offsets", str(tmp_path / "noise"))
    )
    cluster.submit("j2", name="fine")
    cluster.write_state("j2", Phase.PARKED, "a user stopped the job", attempt=1)
    assert "is not parked because of its Kafka offsets" in error_message(
        run_command(cluster, "resume", "fine", "--offsets", "keep")
    )
    cluster.submit("j3", name="running")
    assert "is not parked" in error_message(run_command(cluster, "resume", "running", "--offsets", "keep"))
    assert Claims(str(place)).read_metadata(KAFKA_CHOICE_FILE) is None
    assert word(cluster)[2] == 0, "nobody has said anything"
