"""Invariants of blobs and claims under random sequences of operations."""

import contextlib
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.errors import HoldfastError
from holdfast.storage import AlreadyClaimed, BlobDamaged, BlobMissing, CheckpointClaim, Claims, ForeignCheckpoint, open_storage

contents = st.binary(max_size=40)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(claimed=contents, planted=contents, earlier=st.none() | contents)
def test_fetch_never_returns_content_with_another_digest(claimed: bytes, planted: bytes, earlier: bytes | None) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        (root / "blobs").mkdir()
        (root / "blobs" / sha256(claimed)).write_bytes(planted)
        out = root / "out"
        if earlier is not None:
            out.write_bytes(earlier)
        try:
            open_storage(place).fetch(sha256(claimed), out)
        except BlobDamaged:
            assert planted != claimed
            assert (out.read_bytes() if out.exists() else None) == earlier, "the previous file is unchanged"
        else:
            assert sha256(out.read_bytes()) == sha256(claimed)
        assert {path.name for path in root.iterdir()} <= {"blobs", "out"}


class Submissions(RuleBasedStateMachine):
    """Random submissions and garbage collections with blobs of any age: a referenced blob is never lost."""

    def __init__(self) -> None:
        super().__init__()
        self._place = tempfile.TemporaryDirectory()
        self.root = Path(self._place.name) / "storage"
        self.root.mkdir()
        self.storage = open_storage(str(self.root))
        self.recorded: set[bytes] = set()
        self.put: set[bytes] = set()
        """Contents that were stored and can be recorded."""

    def teardown(self) -> None:
        self._place.cleanup()

    def _file(self, content: bytes) -> Path:
        path = self.root.parent / "source"
        path.write_bytes(content)
        return path

    @rule(content=contents)
    def put_file(self, content: bytes) -> None:
        assert self.storage.put(self._file(content)) == sha256(content)
        self.put.add(content)

    @precondition(lambda self: self.put)
    @rule(data=st.data())
    def record_file(self, data: st.DataObject) -> None:
        content = data.draw(st.sampled_from(sorted(self.put)))
        self.recorded.add(content)
        self.storage.ensure_stored(self._file(content), sha256(content))

    @rule(data=st.data(), hours=st.integers(0, 100))
    def age_some_blobs(self, data: st.DataObject, hours: int) -> None:
        for blob in list(self.storage.list_blobs()):
            if data.draw(st.booleans()):
                then = time.time() - hours * 3600
                os.utime(self.root / "blobs" / blob.digest, (then, then))

    @rule(content=contents)
    def damage_blob(self, content: bytes) -> None:
        place = self.root / "blobs" / sha256(content)
        if place.exists() and content not in self.recorded:
            place.write_bytes(b"damaged")
            self.put.discard(content)

    @rule()
    def collect_garbage(self) -> None:
        young = {blob.digest for blob in self.storage.list_blobs() if blob.modified_wall_s > time.time() - 86_000}
        removed = self.storage.collect_garbage(lambda: [sha256(content) for content in self.recorded], now_wall=time.time())
        assert not young & set(removed)

    @invariant()
    def referenced_blobs_can_be_fetched(self) -> None:
        for content in self.recorded:
            self.storage.fetch(sha256(content), self.root.parent / "out")
            assert (self.root.parent / "out").read_bytes() == content

    @invariant()
    def no_temporary_files_remain(self) -> None:
        if (self.root / "blobs").exists():
            assert all(len(path.name) == 64 for path in (self.root / "blobs").iterdir())


TestSubmissions = pytest.mark.slow(Submissions.TestCase)
TestSubmissions.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


def record(job: str, attempt: int) -> bytes:
    return json.dumps(
        {"schema": 1, "cluster": "c", "job": job, "attempt": attempt, "node": "n", "nonce": f"old-{job}"}
    ).encode()


jobs = st.sampled_from(["mine", "theirs"])


def file_contents(number: int) -> st.SearchStrategy[bytes]:
    """Return a strategy for the content of a claim or outcome file: mostly a valid claim of this attempt."""
    malformed = st.builds(record, jobs, st.integers(1, 5)) | st.builds(
        lambda cut: record("mine", number)[:cut], st.integers(0, 60)
    )
    return st.builds(record, jobs, st.just(number)) | st.just(b"") | st.binary(max_size=20) | malformed


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    files=st.fixed_dictionaries(
        {}, optional={f"{kind}-{number}": file_contents(number) for kind in ("claim", "outcome") for number in range(1, 6)}
    ),
    attempt=st.integers(1, 7),
)
@example(files={"claim-1": record("theirs", 1), "claim-3": record("mine", 3)}, attempt=5)
@example(files={"claim-1": record("mine", 1), "claim-3": record("theirs", 3), "claim-4": b"garbage"}, attempt=5)
def test_claim_never_reuses_a_number_or_takes_the_checkpoint_of_another_job(files: dict[str, bytes], attempt: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "_holdfast"
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        claims = Claims(place)
        claim = CheckpointClaim("c", "mine", attempt, "n", "new")
        used = {int(name.partition("-")[2]) for name in files}
        theirs = any(files.get(f"claim-{number}") == record("theirs", number) for number in range(1, 6))
        try:
            claims.claim(claim)
        except (AlreadyClaimed, ForeignCheckpoint) as error:
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == files, "no file has changed"
            assert isinstance(error, ForeignCheckpoint) or max(used) >= attempt
        else:
            assert not theirs
            assert attempt > max(used, default=0)
            assert claims.read_owner() == claim


leaves = st.none() | st.booleans() | st.floats() | st.text(max_size=5)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode()))
def test_outcome_is_read_as_a_json_object_or_ignored_with_a_warning(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        warnings: list[str] = []
        claims = Claims(place, warn=warnings.append)
        claims.write_outcome(1, data)
        found = claims.read_outcome(1)
        assert (found is None) == bool(warnings)
        if found is not None:
            assert json.dumps(found) == json.dumps(json.loads(data))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(digest=st.text(max_size=70) | st.from_regex(r"\A[0-9a-fA-F./]{64}\Z"))
def test_no_digest_leads_outside_of_the_blobs_folder(digest: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "storage"
        (root / "blobs").mkdir(parents=True)
        storage = open_storage(str(root))
        before = {path: path.stat().st_mtime_ns for path in Path(place).rglob("*")}
        with contextlib.suppress(HoldfastError):
            storage.remove(digest)
        with contextlib.suppress(HoldfastError):
            assert not storage.has(digest)
        try:
            storage.fetch(digest, Path(place) / "out")
        except BlobMissing:
            assert len(digest) == 64
        except HoldfastError:
            pass
        assert {path: path.stat().st_mtime_ns for path in Path(place).rglob("*")} == before
