"""Logs on storage that is reached over the network: a real S3 server."""

import gzip
from collections.abc import Iterator

import pytest

from holdfast.errors import Refused
from holdfast.explain.inputs import inputs
from holdfast.explain.scan import ranges
from tests.explain.situations import at, quiet, stall
from tests.harness.explain_in_process import asked, read
from tests.harness.s3 import Bucket, S3Server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = server.bucket("logs")
    bucket.put("zk1.log", (quiet(1, at("13:00:00")) + stall(1, at("13:12:39.083"), 30334)).encode())
    bucket.put("older/zk2.log.gz", gzip.compress(stall(2, at("13:12:39.084"), 30456).encode()))
    return bucket


def test_a_folder_is_read_with_all_that_is_in_it_wherever_the_storage_is(bucket: Bucket) -> None:
    answer = asked(bucket.location).json()
    assert [one["signature"] for one in answer["diagnoses"]] == ["zk-simultaneous-stall"]
    files = {evidence["file"] for evidence in answer["diagnoses"][0]["evidence"]}
    assert files == {"s3://logs/pre/fix/zk1.log", "s3://logs/pre/fix/older/zk2.log.gz"}


def test_one_object_is_read_in_ranges(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    address = bucket.location.replace("pre/fix", "pre/fix/zk1.log")
    whole = read(address)
    monkeypatch.setattr(ranges, "RANGE_BYTES", 500)
    assert len(ranges.tasks(inputs([address]))) > 1 or len(ranges.tasks(inputs([address]))[0]) > 1
    assert read(address) == whole


def test_what_is_not_there_is_said_without_anybodys_key(bucket: Bucket) -> None:
    address = bucket.location.replace("s3://", "s3://someone:s3cret@").replace("pre/fix", "nothing/here")
    with pytest.raises(Refused) as refused:
        inputs([address])
    assert "s3cret" not in str(refused.value)
    assert "nothing/here" in str(refused.value)
    unknown = bucket.location.replace("s3://logs", "s3://someone:s3cret@nowhere")
    with pytest.raises(Refused) as refused:
        inputs([unknown])
    assert "s3cret" not in str(refused.value)
    assert "s3://nowhere/pre/fix" in str(refused.value)
