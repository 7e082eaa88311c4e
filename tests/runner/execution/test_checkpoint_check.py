"""Verification of checkpoints before an attempt."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import log
from holdfast.checkpoint import KnownQueries, KnownQuery
from holdfast.errors import Conflict
from holdfast.model.checkpoint_trust import FINDINGS_MAX, CheckpointTrust, record_findings
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.job import Progress, Report
from holdfast.runner.execution.checkpoint_check import CheckpointDamaged, CheckpointVerification
from holdfast.runner.execution.location_ownership import LocationOwnership
from holdfast.storage import CheckpointClaim, Claims, ForeignCheckpoint
from tests.harness.checkpoint_trees import (
    LONG_KEY_SCHEMA,
    checkpoint_files,
    operator_state,
    sink_log_files,
    transform_state,
    write_files,
)

CLAIM = CheckpointClaim(cluster="c", job="j1", attempt=2, node="n1", nonce="x")
NO_PROGRESS = Report(Attempt(1), NodeId("n1"), 1000.0)


def report_with_batch(batch: int) -> Report:
    return replace(NO_PROGRESS, progress=Progress(batch_id=batch))


class JobCheckpoint:
    """Checkpoint of a job with one query, which writes files."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "checkpoints" / "j1"
        self.query = self.root / "query-1"
        self.output = directory / "out put"
        self.claims = Claims(str(self.root))
        self.known = KnownQuery(str(self.query), "", "parquet", str(self.output), batch_id=2)
        self._storage = str(directory)

    def verify(
        self,
        previous_report: Report | None = None,
        *,
        claim: CheckpointClaim = CLAIM,
        trust: CheckpointTrust | None = None,
    ) -> str:
        self.claims.claim(claim)
        logger = log.configure_logging(component="test")
        ownership = LocationOwnership(str(self.root), self._storage, claim, lambda _job: None, logger)
        return CheckpointVerification(str(self.root), self._storage, self.claims, claim, ownership, logger).verify(
            previous_report, trust
        )


@pytest.fixture
def checkpoint(tmp_path: Path) -> JobCheckpoint:
    checkpoint = JobCheckpoint(tmp_path)
    write_files(checkpoint_files(5), checkpoint.query)
    write_files(sink_log_files(4), checkpoint.output / "_spark_metadata")
    checkpoint.claims.save_known_queries(KnownQueries((checkpoint.known,)))
    return checkpoint


def test_job_without_a_checkpoint_is_accepted_if_it_has_never_run(tmp_path: Path) -> None:
    assert JobCheckpoint(tmp_path).verify() == ""
    assert JobCheckpoint(tmp_path).verify(NO_PROGRESS, claim=replace(CLAIM, attempt=3)) == ""


def test_checkpoint_without_a_commit_is_accepted_if_no_batch_was_committed(tmp_path: Path) -> None:
    checkpoint = JobCheckpoint(tmp_path)
    state = operator_state(0, "stateStoreSave", LONG_KEY_SCHEMA, shuffle_partitions=2, partitions=0, version=0)
    write_files({**checkpoint_files(0), **state}, checkpoint.query, with_checksums=True)
    checkpoint.claims.save_known_queries(KnownQueries((replace(checkpoint.known, batch_id=None),)))
    assert checkpoint.verify(NO_PROGRESS) == ""
    checkpoint.claims.save_known_queries(KnownQueries((checkpoint.known,)))
    with pytest.raises(CheckpointDamaged, match="it has no commit, but batch 2 was committed"):
        checkpoint.verify(NO_PROGRESS, claim=replace(CLAIM, attempt=3))


def test_intact_checkpoint_is_accepted_and_its_position_recorded(checkpoint: JobCheckpoint) -> None:
    assert checkpoint.verify(report_with_batch(4)) == ""
    known = checkpoint.claims.load_known_queries()
    assert known is not None and known.queries == (replace(checkpoint.known, batch_id=4),)


def test_incomplete_offsets_file_is_moved_aside_with_a_note(checkpoint: JobCheckpoint) -> None:
    (checkpoint.query / "offsets" / "5").write_bytes(b"v1\n{")
    note = checkpoint.verify(report_with_batch(4))
    assert note == (
        f"offsets/5 of {checkpoint.query} was incomplete and was moved to _holdfast/aside/query-1/offsets-5-2; "
        "that batch had no effect, and the query continues after batch 4"
    )
    assert (checkpoint.root / "_holdfast" / "aside" / "query-1" / "offsets-5-2").read_bytes() == b"v1\n{"
    assert not (checkpoint.query / "offsets" / "5").exists()
    assert checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=3)) == ""


def test_temporary_files_of_a_new_checkpoint_are_moved_aside_with_a_note(tmp_path: Path) -> None:
    checkpoint = JobCheckpoint(tmp_path)
    leftovers = {"offsets/.0.5f2c.tmp": b"v1", "offsets/..0.5f2c.tmp.crc": b"crc", "commits/.0.1a2b.tmp": b""}
    write_files({"metadata": checkpoint_files(0)["metadata"], **leftovers}, checkpoint.query)
    folder = "_holdfast/aside/query-1/leftovers-2"
    assert checkpoint.verify(NO_PROGRESS) == (
        f"temporary files of {checkpoint.query}, left from a batch that was never planned, were moved to {folder}"
    )
    moved = sorted(path.name for path in (checkpoint.root / folder).iterdir())
    assert moved == ["commits-.0.1a2b.tmp", "offsets-..0.5f2c.tmp.crc", "offsets-.0.5f2c.tmp"]
    assert list((checkpoint.query / "offsets").iterdir()) == []
    assert checkpoint.verify(NO_PROGRESS, claim=replace(CLAIM, attempt=3)) == ""


@pytest.mark.parametrize("exists", [True, False], ids=["original exists", "original deleted"])
def test_copied_checkpoint_names_its_own_schema_files_from_then_on(tmp_path: Path, exists: bool) -> None:
    original, checkpoint = tmp_path / "old" / "query-1", JobCheckpoint(tmp_path / "new")
    schema = "state/0/_stateSchema/default/0_5a92"
    state = transform_state(f"file:{original}/{schema}", "transformWithStateExec", version=5)
    files = {**checkpoint_files(4, committed=4), **state}
    for query in (original, checkpoint.query) if exists else (checkpoint.query,):
        write_files(files, query, with_checksums=True)
    (checkpoint.query / "state/0/_metadata/v2/.0.0123456789abcdef.tmp").write_bytes(b"v2")  # a killed attempt left it
    assert checkpoint.verify(report_with_batch(4)) == (
        f"metadata of the state in {checkpoint.query} named schema files elsewhere and now names the copies beside it"
    )
    metadata = checkpoint.query / "state" / "0" / "_metadata" / "v2" / "0"
    assert f'"file:{checkpoint.query}/{schema}"' in metadata.read_text()
    assert [file.name for file in metadata.parent.iterdir()] == ["0"]
    assert checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=3)) == ""


def test_missing_schema_file_without_a_copy_is_refused(tmp_path: Path) -> None:
    checkpoint = JobCheckpoint(tmp_path)
    state = transform_state(f"file:{tmp_path}/old/0_5a92", "transformWithStateExec", version=5)
    write_files({**checkpoint_files(4, committed=4), **state}, checkpoint.query)
    with pytest.raises(CheckpointDamaged, match=r"_metadata/v2/0 names file:.*/old/0_5a92, which does not exist"):
        checkpoint.verify(report_with_batch(4))


def test_incomplete_offsets_file_is_kept_and_refused_if_its_batch_may_have_had_an_effect(checkpoint: JobCheckpoint) -> None:
    (checkpoint.query / "offsets" / "5").write_bytes(b"")
    write_files(sink_log_files(5), checkpoint.output / "_spark_metadata")
    with pytest.raises(CheckpointDamaged) as refused:
        checkpoint.verify(report_with_batch(4))
    assert str(refused.value) == (
        f"the checkpoint {checkpoint.query} cannot be trusted: offsets/5 is empty, and the sink already has batch 5; "
        "the last committed batch is 4. Repair it or restore a copy and run 'holdfast resume j1', run 'holdfast resume j1 "
        "--trust-checkpoint --reason TEXT' if you have looked and it may be used as it is, or run 'holdfast cancel j1'"
    )
    assert (checkpoint.query / "offsets" / "5").exists()


def _root_gone(checkpoint: JobCheckpoint) -> None:
    checkpoint.root.rename(checkpoint.root.with_name("elsewhere"))


def _query_gone(checkpoint: JobCheckpoint) -> None:
    checkpoint.query.rename(checkpoint.root.with_name("elsewhere"))


def _content_gone(checkpoint: JobCheckpoint) -> None:
    _query_gone(checkpoint)
    checkpoint.query.mkdir()


@pytest.mark.parametrize("vanish", [_root_gone, _query_gone, _content_gone])
def test_missing_checkpoint_is_refused_instead_of_starting_from_scratch(
    checkpoint: JobCheckpoint, vanish: Callable[[JobCheckpoint], None]
) -> None:
    vanish(checkpoint)
    with pytest.raises(CheckpointDamaged, match=r"it no longer exists, but batch [24] was committed"):
        checkpoint.verify(report_with_batch(4))
    with pytest.raises(CheckpointDamaged, match="the query would start from scratch"):
        checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=3))


def test_query_without_a_durable_checkpoint_may_start_over(checkpoint: JobCheckpoint) -> None:
    _root_gone(checkpoint)
    checkpoint.claims.save_known_queries(KnownQueries((KnownQuery("", format="memory"),)))
    assert checkpoint.verify(report_with_batch(4)) == ""


def test_reported_batch_is_ignored_if_the_job_has_several_queries(checkpoint: JobCheckpoint) -> None:
    checkpoint.claims.save_known_queries(KnownQueries((KnownQuery("", format="memory"), checkpoint.known)))
    assert checkpoint.verify(report_with_batch(9)) == ""


def test_older_copy_of_a_checkpoint_is_refused(checkpoint: JobCheckpoint) -> None:
    for batch in (3, 4):
        (checkpoint.query / "commits" / str(batch)).unlink()
    for batch in (4, 5):
        (checkpoint.query / "offsets" / str(batch)).unlink()
    # The restored copy is consistent in itself; only the report shows that it is old.
    with pytest.raises(CheckpointDamaged, match="its newest commit is commits/2, but batch 4 was committed"):
        checkpoint.verify(report_with_batch(4))


def test_checkpoint_outside_of_the_root_is_verified_and_claimed(checkpoint: JobCheckpoint, tmp_path: Path) -> None:
    elsewhere = tmp_path / "own" / "place"
    write_files(checkpoint_files(3), elsewhere)
    checkpoint.claims.save_known_queries(KnownQueries((checkpoint.known, KnownQuery(str(elsewhere), format="kafka"))))
    assert checkpoint.verify(report_with_batch(4)) == ""
    assert Claims(str(elsewhere)).read_owner() == CLAIM
    with pytest.raises(ForeignCheckpoint, match="belongs to the job j2"):
        other = Claims(str(tmp_path / "again"))
        write_files(checkpoint_files(3), tmp_path / "again")
        other.claim(replace(CLAIM, job="j2", attempt=1))
        checkpoint.claims.save_known_queries(KnownQueries((KnownQuery(str(tmp_path / "again")),)))
        checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=3))
    (elsewhere / "commits" / "2").write_bytes(b"v1\n{")
    checkpoint.claims.save_known_queries(KnownQueries((checkpoint.known, KnownQuery(str(elsewhere)))))
    with pytest.raises(CheckpointDamaged, match="own/place cannot be trusted: commits/2 is truncated"):
        checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=4))


@pytest.mark.parametrize(
    "location", ["relative", "ftp://x/y", pytest.param("s3://no-such-bucket?", marks=pytest.mark.slow), "\x00"]
)
def test_inaccessible_location_is_skipped(checkpoint: JobCheckpoint, location: str) -> None:
    known = KnownQuery(location, format="parquet", path=location, batch_id=7)
    checkpoint.claims.save_known_queries(KnownQueries((checkpoint.known, known)))
    assert checkpoint.verify(report_with_batch(4)) == ""


def test_earlier_attempt_is_refused_after_a_later_one_has_claimed(checkpoint: JobCheckpoint) -> None:
    checkpoint.verify(claim=replace(CLAIM, attempt=9))
    with pytest.raises(Conflict):
        checkpoint.verify()


# Damage that a person trusts


def damaged_findings(checkpoint: JobCheckpoint, attempt: int) -> tuple[str, ...]:
    with pytest.raises(CheckpointDamaged) as refused:
        checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=attempt))
    return refused.value.findings


def trusting(findings: tuple[str, ...]) -> CheckpointTrust:
    return CheckpointTrust("ada@laptop", "commits/4 was cut off by the backup", 1000.0, findings)


def test_trusted_damage_does_not_prevent_later_attempts_and_is_noted(checkpoint: JobCheckpoint) -> None:
    (checkpoint.query / "commits" / "4").write_bytes(b"v1\n{")
    trust = trusting(damaged_findings(checkpoint, 2))
    for attempt in (3, 4):
        assert checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=attempt), trust=trust) == (
            "ada@laptop trusts the checkpoint although it is damaged: commits/4 was cut off by the backup"
        )
    (checkpoint.query / "commits" / "4").write_bytes((checkpoint.query / "commits" / "3").read_bytes())
    assert checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=5), trust=trust) == "", "it was repaired"


def test_new_damage_is_refused_and_only_the_new_damage_is_named(checkpoint: JobCheckpoint) -> None:
    (checkpoint.query / "commits" / "4").write_bytes(b"v1\n{")
    trust = trusting(damaged_findings(checkpoint, 2))
    (checkpoint.query / "metadata").write_bytes(b"")
    with pytest.raises(CheckpointDamaged) as refused:
        checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=3), trust=trust)
    assert "metadata" in str(refused.value)
    assert "commits/4" not in str(refused.value)
    assert set(trust.findings) < set(refused.value.findings), "trusting the new damage covers the old damage too"


def test_same_damage_of_another_location_is_not_trusted(checkpoint: JobCheckpoint) -> None:
    (checkpoint.query / "commits" / "4").write_bytes(b"v1\n{")
    trust = trusting(damaged_findings(checkpoint, 2))
    other = checkpoint.root / "query-2"
    write_files(checkpoint_files(5), other)
    (other / "commits" / "4").write_bytes(b"v1\n{")
    with pytest.raises(CheckpointDamaged, match="query-2 cannot be trusted: commits/4 is truncated"):
        checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=3), trust=trust)


def test_findings_of_all_queries_are_named_and_trusted_together(checkpoint: JobCheckpoint) -> None:
    write_files(checkpoint_files(5), checkpoint.root / "query-2")
    for query in ("query-1", "query-2"):
        (checkpoint.root / query / "commits" / "4").write_bytes(b"v1\n{")
    with pytest.raises(
        CheckpointDamaged, match=r"query-1 cannot be trusted: .*Also the checkpoint .*query-2 cannot"
    ) as refused:
        checkpoint.verify(report_with_batch(4))
    trust = trusting(refused.value.findings)
    assert checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=3), trust=trust) == str(trust)


def test_missing_checkpoint_can_be_trusted(tmp_path: Path) -> None:
    """The job then starts from scratch, which is what the finding says."""
    checkpoint = JobCheckpoint(tmp_path)
    trust = trusting(damaged_findings(checkpoint, 2))
    assert checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=3), trust=trust) == str(trust)


def test_trust_of_a_torn_file_does_not_depend_on_what_is_known_about_the_sink(checkpoint: JobCheckpoint) -> None:
    (checkpoint.query / "offsets" / "5").write_bytes(b"")
    checkpoint.claims.save_known_queries(KnownQueries())
    trust = trusting(damaged_findings(checkpoint, 2))
    for number, known in enumerate((KnownQueries(), KnownQueries((replace(checkpoint.known, format="kafka"),)))):
        checkpoint.claims.save_known_queries(known)
        assert checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=3 + number), trust=trust) == str(trust)


def test_accepted_loss_of_batches_is_not_reported_again_when_the_query_has_started_over(checkpoint: JobCheckpoint) -> None:
    checkpoint.claims.save_known_queries(KnownQueries((replace(checkpoint.known, format="kafka", batch_id=9),)))
    trust = trusting(damaged_findings(checkpoint, 2))
    assert checkpoint.verify(report_with_batch(9), claim=replace(CLAIM, attempt=3), trust=trust) == str(trust)
    recorded = checkpoint.claims.load_known_queries()
    assert recorded is not None
    assert [query.batch_id for query in recorded.queries] == [4]
    assert checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=4)) == "", (
        "the report follows with its first batch"
    )
    (checkpoint.query / "commits" / "4").unlink()
    with pytest.raises(CheckpointDamaged, match="batch 4 was committed"):
        checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=5), trust=trust)


def test_trust_does_not_open_the_checkpoint_of_another_job(checkpoint: JobCheckpoint, tmp_path: Path) -> None:
    """G4: claims and ownership stay in force."""
    (checkpoint.query / "commits" / "4").write_bytes(b"v1\n{")
    trust = trusting(damaged_findings(checkpoint, 2))
    Claims(str(tmp_path / "other")).claim(replace(CLAIM, job="j2"))
    write_files(checkpoint_files(3), tmp_path / "other")
    checkpoint.claims.save_known_queries(KnownQueries((checkpoint.known, KnownQuery(str(tmp_path / "other")))))
    with pytest.raises(ForeignCheckpoint, match="belongs to the job j2"):
        checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=3), trust=trust)
    with pytest.raises(Conflict):
        checkpoint.verify(report_with_batch(4), claim=replace(CLAIM, attempt=1), trust=trust)


def test_too_many_findings_are_not_recorded() -> None:
    ids = [str(number) for number in range(FINDINGS_MAX)]
    assert record_findings(ids) == tuple(sorted(ids))
    assert record_findings([*ids, "one more"]) == ()
