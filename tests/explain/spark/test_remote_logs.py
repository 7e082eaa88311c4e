"""Logs on remote storage: a real S3 server."""

import gzip
from collections.abc import Iterator

import pytest

from holdfast.errors import Refused
from holdfast.explain.inputs import find_inputs
from holdfast.explain.scan import ranges
from tests.harness.explain_in_process import explain_logs, scan_files
from tests.harness.log_situations import at, healthy_log, stall_line
from tests.harness.s3 import Bucket, S3Server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = server.create_bucket("logs")
    bucket.put("zk1.log", (healthy_log(1, at("13:00:00")) + stall_line(1, at("13:12:39.083"), 30334)).encode())
    bucket.put("older/zk2.log.gz", gzip.compress(stall_line(2, at("13:12:39.084"), 30456).encode()))
    return bucket


@pytest.mark.slow
def test_remote_folder_is_read_recursively(bucket: Bucket) -> None:
    answer = explain_logs(bucket.location).as_json()
    assert [one["signature"] for one in answer["diagnoses"]] == ["zk-simultaneous-stall"]
    files = {evidence["file"] for evidence in answer["diagnoses"][0]["evidence"]}
    assert files == {"s3://logs/pre/fix/zk1.log", "s3://logs/pre/fix/older/zk2.log.gz"}


@pytest.mark.slow
def test_remote_object_is_read_in_ranges(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    address = bucket.location.replace("pre/fix", "pre/fix/zk1.log")
    whole = scan_files(address)
    monkeypatch.setattr(ranges, "RANGE_BYTES", 500)
    assert len(ranges.plan_tasks(find_inputs([address]))) > 1 or len(ranges.plan_tasks(find_inputs([address]))[0]) > 1
    assert scan_files(address) == whole


@pytest.mark.slow
def test_error_about_a_missing_object_does_not_contain_credentials(bucket: Bucket) -> None:
    address = bucket.location.replace("s3://", "s3://someone:s3cret@").replace("pre/fix", "nothing/here")
    with pytest.raises(Refused) as refused:
        find_inputs([address])
    assert "s3cret" not in str(refused.value)
    assert "nothing/here" in str(refused.value)
    unknown = bucket.location.replace("s3://logs", "s3://someone:s3cret@nowhere")
    with pytest.raises(Refused) as refused:
        find_inputs([unknown])
    assert "s3cret" not in str(refused.value)
    assert "s3://nowhere/pre/fix" in str(refused.value)
