"""Whatever is stored, damaged, swept and claimed, in whatever order: what never happens."""

import contextlib
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.errors import HoldfastError
from holdfast.storage import BlobDamaged, BlobMissing, Claim, Claimed, Claims, ForeignCheckpoint, open_storage

contents = st.binary(max_size=40)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@settings(max_examples=200, deadline=None)
@given(claimed=contents, planted=contents, earlier=st.none() | contents)
def test_fetching_never_yields_bytes_of_another_hash(claimed: bytes, planted: bytes, earlier: bytes | None) -> None:
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
            assert (out.read_bytes() if out.exists() else None) == earlier, "what was there stays"
        else:
            assert sha256(out.read_bytes()) == sha256(claimed)
        assert {path.name for path in root.iterdir()} <= {"blobs", "out"}


class Submissions(RuleBasedStateMachine):
    """Clients put, record and ensure, and sweepers sweep, with any ages: nothing that a record names is ever lost."""

    def __init__(self) -> None:
        super().__init__()
        self._place = tempfile.TemporaryDirectory()
        self.root = Path(self._place.name) / "storage"
        self.root.mkdir()
        self.storage = open_storage(str(self.root))
        self.recorded: set[bytes] = set()
        self.put: set[bytes] = set()
        """Put since the last sweep, not yet recorded."""

    def teardown(self) -> None:
        self._place.cleanup()

    def _file(self, content: bytes) -> Path:
        path = self.root.parent / "source"
        path.write_bytes(content)
        return path

    @rule(content=contents)
    def put_a_file(self, content: bytes) -> None:
        assert self.storage.put(self._file(content)) == sha256(content)
        self.put.add(content)

    @precondition(lambda self: self.put)
    @rule(data=st.data())
    def record_it(self, data: st.DataObject) -> None:
        content = data.draw(st.sampled_from(sorted(self.put)))
        self.recorded.add(content)
        self.storage.ensure(self._file(content), sha256(content))

    @rule(data=st.data(), hours=st.integers(0, 100))
    def time_passes_for_some(self, data: st.DataObject, hours: int) -> None:
        for blob in list(self.storage.blobs()):
            if data.draw(st.booleans()):
                then = time.time() - hours * 3600
                os.utime(self.root / "blobs" / blob.digest, (then, then))

    @rule(content=contents)
    def a_blob_is_damaged(self, content: bytes) -> None:
        place = self.root / "blobs" / sha256(content)
        if place.exists() and content not in self.recorded:
            place.write_bytes(b"damaged")
            self.put.discard(content)

    @rule()
    def sweep(self) -> None:
        young = {blob.digest for blob in self.storage.blobs() if blob.modified_wall_s > time.time() - 86_000}
        removed = self.storage.sweep(lambda: [sha256(content) for content in self.recorded], now_wall=time.time())
        assert not young & set(removed)

    @invariant()
    def what_a_record_names_can_be_fetched(self) -> None:
        for content in self.recorded:
            self.storage.fetch(sha256(content), self.root.parent / "out")
            assert (self.root.parent / "out").read_bytes() == content

    @invariant()
    def nothing_is_left_lying_about(self) -> None:
        if (self.root / "blobs").exists():
            assert all(len(path.name) == 64 for path in (self.root / "blobs").iterdir())


TestSubmissions = Submissions.TestCase
TestSubmissions.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


def record(job: str, attempt: int) -> bytes:
    return json.dumps(
        {"schema": 1, "cluster": "c", "job": job, "attempt": attempt, "node": "n", "nonce": f"old-{job}"}
    ).encode()


jobs = st.sampled_from(["mine", "theirs"])


def written(number: int) -> st.SearchStrategy[bytes]:
    """What a file may hold that says it is of this attempt; mostly what it should."""
    odd = st.builds(record, jobs, st.integers(1, 5)) | st.builds(lambda cut: record("mine", number)[:cut], st.integers(0, 60))
    return st.builds(record, jobs, st.just(number)) | st.just(b"") | st.binary(max_size=20) | odd


@settings(max_examples=300, deadline=None)
@given(
    files=st.fixed_dictionaries(
        {}, optional={f"{kind}-{number}": written(number) for kind in ("claim", "outcome") for number in range(1, 6)}
    ),
    attempt=st.integers(1, 7),
)
@example(files={"claim-1": record("theirs", 1), "claim-3": record("mine", 3)}, attempt=5)
@example(files={"claim-1": record("mine", 1), "claim-3": record("theirs", 3), "claim-4": b"garbage"}, attempt=5)
def test_whatever_the_folder_holds_no_number_is_reused_and_no_checkpoint_of_another_is_taken(
    files: dict[str, bytes], attempt: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "_holdfast"
        folder.mkdir()
        for name, data in files.items():
            (folder / name).write_bytes(data)
        claims = Claims(place)
        claim = Claim("c", "mine", attempt, "n", "new")
        used = {int(name.partition("-")[2]) for name in files}
        theirs = any(files.get(f"claim-{number}") == record("theirs", number) for number in range(1, 6))
        try:
            claims.claim(claim)
        except (Claimed, ForeignCheckpoint) as error:
            assert {path.name: path.read_bytes() for path in folder.iterdir()} == files, "and nothing has changed"
            assert isinstance(error, ForeignCheckpoint) or max(used) >= attempt
        else:
            assert not theirs
            assert attempt > max(used, default=0)
            assert claims.owner() == claim


leaves = st.none() | st.booleans() | st.floats() | st.text(max_size=5)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode()))
def test_an_outcome_never_comes_back_as_anything_but_an_object_or_nothing(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        notes: list[str] = []
        claims = Claims(place, note=notes.append)
        claims.leave_outcome(1, data)
        found = claims.outcome(1)
        assert (found is None) == bool(notes)
        if found is not None:
            assert json.dumps(found) == json.dumps(json.loads(data))


@settings(max_examples=100, deadline=None)
@given(digest=st.text(max_size=70) | st.from_regex(r"\A[0-9a-fA-F./]{64}\Z"))
def test_no_name_ever_leads_out_of_the_folder(digest: str) -> None:
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
