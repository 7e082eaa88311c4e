"""Locations: one place, spelled for people, for pyarrow and for Spark; everything else is refused in a sentence."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.fs import FileSystem, S3FileSystem

from holdfast.errors import Refused
from holdfast.storage import checkpoint_of, in_storage, open_storage, spark_conf, validate
from holdfast.storage.location import parse

S3 = "s3://bucket/some/path?endpoint_override=127.0.0.1:9000&scheme=http"


@pytest.mark.parametrize(
    ("location", "usual"),
    [
        ("/data/holdfast", "/data/holdfast"),
        ("/data//holdfast/", "/data/holdfast"),
        ("/data/a b/ä%20:+", "/data/a b/ä%20:+"),
        ("file:///data/holdfast", "/data/holdfast"),
        ("file:/data/holdfast", "/data/holdfast"),
        ("file://localhost/data/a b", "/data/a b"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a//b/", "s3://bucket/a/b"),
        ("s3a://bucket/a", "s3://bucket/a"),
        (S3, S3),
        ("gcs://bucket/a", "gs://bucket/a"),
        ("hdfs://user@namenode:8020/a", "hdfs://user@namenode:8020/a"),
        ("hdfs:///a", "hdfs:///a"),
        ("abfss://container@account.dfs.core.windows.net/a", "abfss://container@account.dfs.core.windows.net/a"),
    ],
)
def test_a_location_is_spelled_the_usual_way(location: str, usual: str) -> None:
    validate(location)
    assert str(parse(location)) == usual
    assert open_storage(location).location == usual


@pytest.mark.parametrize(
    ("location", "sentence"),
    [
        ("", "'' is not a location: expected a directory"),
        ("relative/path", "'relative/path' is not a location: expected a directory"),
        ("~/storage", "is not a location"),
        ("C:\\storage", "is not a location"),
        ("/", "is the root of the file system"),
        ("/data/../etc", r"has '\.' or '\.\.' in its path"),
        ("/data/./x", r"has '\.' or '\.\.' in its path"),
        ("/data\0", "is not a location"),
        ("/data\nx", "is not a location"),
        ("file:data", "is not a location: expected file:///PATH"),
        ("file://machine/data", "names the machine 'machine'"),
        ("file:///data?x=1", "is not a location: expected file:///PATH"),
        ("file:///a%20b", "has '%' in its path, which Spark takes as it stands"),
        ("file:///../etc", r"has '\.' or '\.\.' in its path"),
        ("http://host/path", "'http://' is not supported as a location"),
        ("S3://bucket/x", "is not a location"),
        ("s3://", "does not name where to look: expected s3://BUCKET/PATH"),
        ("s3:///path", "does not name where to look: expected s3://BUCKET/PATH"),
        ("s3:bucket", "is not a location"),
        ("s3://bucket/a#b", "is not a location"),
        ("s3://bucket/a%2Fb", "has '%' in its path, which Spark and pyarrow read differently"),
        ("s3://bucket/a b", "has ' ' in its path"),
        ("s3://bucket/../other", r"has '\.' or '\.\.' in its path"),
        ("s3://bucket/a?region", "has a query that is not NAME=VALUE"),
        ("s3://bucket/a?secret_key=hunter2", r"holds a secret \('secret_key'\)"),
        ("abfs://account/container", "expected abfs://CONTAINER@ACCOUNT"),
        ("hdfs://host:port/x", "expected hdfs://HOST:PORT/PATH"),
    ],
)
def test_what_is_no_location_is_refused_in_a_sentence(location: str, sentence: str) -> None:
    for call in (validate, open_storage, lambda text: checkpoint_of(text, "job")):
        with pytest.raises(Refused, match=sentence) as refused:
            call(location)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("location", ["s3://key:hunter2@bucket/x", "s3://key:hunter2@bucket/x y", "x3://key:hunter2@bucket#"])
def test_a_password_is_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(Refused) as refused:
        validate(location)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("location", "for_spark", "for_claims"),
    [
        ("/data/x", "/data/x/checkpoints/job-7", "/data/x/checkpoints/job-7"),
        ("file:///data/x", "/data/x/checkpoints/job-7", "/data/x/checkpoints/job-7"),
        ("s3://bucket", "s3a://bucket/checkpoints/job-7", "s3://bucket/checkpoints/job-7"),
        (S3, "s3a://bucket/some/path/checkpoints/job-7", S3.replace("?", "/checkpoints/job-7?")),
        ("gs://b/p", "gs://b/p/checkpoints/job-7", "gs://b/p/checkpoints/job-7"),
        ("hdfs://n:8020/p", "hdfs://n:8020/p/checkpoints/job-7", "hdfs://n:8020/p/checkpoints/job-7"),
    ],
)
def test_a_checkpoint_is_spelled_for_spark_and_back(location: str, for_spark: str, for_claims: str) -> None:
    assert checkpoint_of(location, "job-7") == for_spark
    assert in_storage(for_spark, location) == for_claims


def test_a_checkpoint_elsewhere_is_reached_without_the_storages_query() -> None:
    assert in_storage("s3a://other/x", S3) == "s3://other/x"
    assert in_storage("/data/x", S3) == "/data/x"
    assert in_storage("s3a://bucket/elsewhere", S3) == "s3://bucket/elsewhere?endpoint_override=127.0.0.1:9000&scheme=http"


@pytest.mark.parametrize("job", ["", "..", "a/b", "a b", "-a", "a" * 65, "ä"])
def test_a_job_that_is_no_name_has_no_checkpoint(job: str) -> None:
    for location in ("/data", S3):
        with pytest.raises(Refused, match="cannot be the name of a job's checkpoint"):
            checkpoint_of(location, job)


def test_spark_is_told_how_to_reach_the_same_store() -> None:
    assert spark_conf("/data") == {}
    assert spark_conf("s3://bucket/x") == {}
    assert spark_conf("s3://bucket/x?region=eu-west-1") == {"spark.hadoop.fs.s3a.endpoint.region": "eu-west-1"}
    assert spark_conf(S3) == {
        "spark.hadoop.fs.s3a.endpoint": "127.0.0.1:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


names = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True)
likely = st.text(st.sampled_from("abZ09/:.?#@%&=-_ ~é\\\0\n"), max_size=30)
texts = likely | st.builds(
    "{}{}".format, st.sampled_from(["s3://", "s3a://", "gs://", "file://", "file:", "hdfs://", "/"]), likely
)


@settings(max_examples=500, deadline=None)
@given(text=texts, job=names)
def test_whatever_is_admitted_never_leaves_its_place(text: str, job: str) -> None:
    try:
        location = parse(text)
    except Refused:
        return
    assert parse(str(location)) == location, "its own spelling means the same"
    checkpoint = checkpoint_of(text, job)
    assert checkpoint == f"{location.for_spark}/checkpoints/{job}"
    assert ".." not in checkpoint.split("/")
    assert parse(in_storage(checkpoint, text)) == location.joined("checkpoints", job), "there and back"
    if location.is_directory:
        assert Path(checkpoint).is_absolute()
        assert Path(location.path).resolve() in Path(checkpoint).resolve().parents


@settings(max_examples=200, deadline=None)
@given(
    bucket=names.filter(lambda name: len(name) > 2),
    path=st.lists(st.from_regex(r"[A-Za-z0-9._=+@~,-]{3,8}", fullmatch=True), max_size=3),
    job=names,
)
def test_pyarrow_and_spark_never_see_another_place_than_we_do(bucket: str, path: list[str], job: str) -> None:
    location = "/".join([f"s3://{bucket}", *path]) + "?region=eu-west-1"
    files, key = FileSystem.from_uri(in_storage(checkpoint_of(location, job), location))
    assert isinstance(files, S3FileSystem)
    assert files.region == "eu-west-1"
    assert f"s3a://{key}" == checkpoint_of(location, job)
