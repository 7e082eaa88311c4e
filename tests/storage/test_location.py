"""Storage locations and their forms for pyarrow and Spark."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.fs import FileSystem, S3FileSystem

from holdfast.errors import Refused
from holdfast.storage import check_location, checkpoint_location, open_storage, spark_checkpoint_uri, spark_conf
from holdfast.storage.location import parse_location

S3 = "s3://bucket/some/path?endpoint_override=127.0.0.1:9000&scheme=http"


@pytest.mark.parametrize(
    ("location", "normal_form"),
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
def test_location_has_a_normal_form(location: str, normal_form: str) -> None:
    check_location(location)
    assert str(parse_location(location)) == normal_form
    assert open_storage(location).location == normal_form


@pytest.mark.parametrize(
    ("location", "message"),
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
        ("file://machine/data", "contains the host name 'machine'"),
        ("file:///data?x=1", "is not a location: expected file:///PATH"),
        ("file:///a%20b", "has '%' in its path, which Spark does not decode but pyarrow does"),
        ("file:///../etc", r"has '\.' or '\.\.' in its path"),
        ("http://host/path", "'http://' is not supported as a location"),
        ("S3://bucket/x", "is not a location"),
        ("s3://", "has no valid host or bucket: expected s3://BUCKET/PATH"),
        ("s3:///path", "has no valid host or bucket: expected s3://BUCKET/PATH"),
        ("s3:bucket", "is not a location"),
        ("s3://bucket/a#b", "is not a location"),
        ("s3://bucket/a%2Fb", "has '%' in its path, which Spark and pyarrow parse differently"),
        ("s3://bucket/a b", "has ' ' in its path"),
        ("s3://bucket/../other", r"has '\.' or '\.\.' in its path"),
        ("s3://bucket/a?region", "has a query that is not NAME=VALUE"),
        ("s3://bucket/a?secret_key=hunter2", r"contains a secret \('secret_key'\)"),
        ("abfs://account/container", "expected abfs://CONTAINER@ACCOUNT"),
        ("hdfs://host:port/x", "expected hdfs://HOST:PORT/PATH"),
    ],
)
def test_invalid_location_is_refused(location: str, message: str) -> None:
    for call in (check_location, open_storage, lambda text: spark_checkpoint_uri(text, "job")):
        with pytest.raises(Refused, match=message) as refused:
            call(location)
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("location", ["s3://key:hunter2@bucket/x", "s3://key:hunter2@bucket/x y", "x3://key:hunter2@bucket#"])
def test_location_with_a_password_is_refused_without_repeating_the_password(location: str) -> None:
    with pytest.raises(Refused) as refused:
        check_location(location)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("location", "spark_uri", "claims_location"),
    [
        ("/data/x", "/data/x/checkpoints/job-7", "/data/x/checkpoints/job-7"),
        ("file:///data/x", "/data/x/checkpoints/job-7", "/data/x/checkpoints/job-7"),
        ("s3://bucket", "s3a://bucket/checkpoints/job-7", "s3://bucket/checkpoints/job-7"),
        (S3, "s3a://bucket/some/path/checkpoints/job-7", S3.replace("?", "/checkpoints/job-7?")),
        ("gs://b/p", "gs://b/p/checkpoints/job-7", "gs://b/p/checkpoints/job-7"),
        ("hdfs://n:8020/p", "hdfs://n:8020/p/checkpoints/job-7", "hdfs://n:8020/p/checkpoints/job-7"),
    ],
)
def test_checkpoint_location_converts_to_spark_and_back(location: str, spark_uri: str, claims_location: str) -> None:
    assert spark_checkpoint_uri(location, "job-7") == spark_uri
    assert checkpoint_location(spark_uri, location) == claims_location


def test_checkpoint_in_another_bucket_does_not_get_the_query_of_the_storage() -> None:
    assert checkpoint_location("s3a://other/x", S3) == "s3://other/x"
    assert checkpoint_location("/data/x", S3) == "/data/x"
    assert (
        checkpoint_location("s3a://bucket/elsewhere", S3)
        == "s3://bucket/elsewhere?endpoint_override=127.0.0.1:9000&scheme=http"
    )


@pytest.mark.parametrize("job", ["", "..", "a/b", "a b", "-a", "a" * 65, "ä"])
def test_invalid_job_id_has_no_checkpoint(job: str) -> None:
    for location in ("/data", S3):
        with pytest.raises(Refused, match="cannot be the name of a job's checkpoint"):
            spark_checkpoint_uri(location, job)


def test_spark_gets_the_endpoint_and_region_of_s3() -> None:
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
fragments = st.text(st.sampled_from("abZ09/:.?#@%&=-_ ~é\\\0\n"), max_size=30)
texts = fragments | st.builds(
    "{}{}".format, st.sampled_from(["s3://", "s3a://", "gs://", "file://", "file:", "hdfs://", "/"]), fragments
)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(text=texts, job=names)
def test_valid_location_never_leads_outside_of_itself(text: str, job: str) -> None:
    try:
        location = parse_location(text)
    except Refused:
        return
    assert parse_location(str(location)) == location, "the normal form is parsed to the same location"
    checkpoint = spark_checkpoint_uri(text, job)
    assert checkpoint == f"{location.spark_uri}/checkpoints/{job}"
    assert ".." not in checkpoint.split("/")
    assert parse_location(checkpoint_location(checkpoint, text)) == location.join("checkpoints", job)
    if location.is_directory:
        assert Path(checkpoint).is_absolute()
        assert Path(location.path).resolve() in Path(checkpoint).resolve().parents


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    bucket=names.filter(lambda name: len(name) > 2),
    path=st.lists(st.from_regex(r"[A-Za-z0-9._=+@~,-]{3,8}", fullmatch=True), max_size=3),
    job=names,
)
def test_pyarrow_and_spark_reach_the_same_path(bucket: str, path: list[str], job: str) -> None:
    location = "/".join([f"s3://{bucket}", *path]) + "?region=eu-west-1"
    files, key = FileSystem.from_uri(checkpoint_location(spark_checkpoint_uri(location, job), location))
    assert isinstance(files, S3FileSystem)
    assert files.region == "eu-west-1"
    assert f"s3a://{key}" == spark_checkpoint_uri(location, job)
