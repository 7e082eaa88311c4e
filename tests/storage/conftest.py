"""Fixtures for storage in a directory and in a real S3 server."""

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.s3 import Bucket, S3Server


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "storage"
    path.mkdir()
    return path


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    """Function that creates a file with the given content."""

    def make(content: bytes) -> Path:
        path = tmp_path / f"file-{secrets.token_hex(4)}"
        path.write_bytes(content)
        return path

    return make


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """New bucket on the shared server, with credentials in the environment."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server.create_bucket(f"b{secrets.token_hex(6)}")


@pytest.fixture(params=["directory", pytest.param("s3", marks=pytest.mark.slow)])
def location(request: pytest.FixtureRequest) -> str:
    """Location of a storage: each test runs with a directory and with S3."""
    if request.param == "directory":
        return str(request.getfixturevalue("directory"))
    bucket: Bucket = request.getfixturevalue("bucket")
    return bucket.location
