"""Driver logs over HTTP: reading, rotation, tail and authorization."""

import http.client
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest

from holdfast.api.log_routes import ATTEMPT_HEADER, ATTEMPT_OVER_HEADER, GAP_HEADER, NEXT_OFFSET_HEADER
from tests.harness.node_stub import AttemptFiles, serve_logs

SECRET = "0123456789abcdef"


class Reader:
    """HTTP client that continues at the offset of the last response."""

    def __init__(self, address: str) -> None:
        self._address = urlsplit(address)
        self.offset = "0"
        self.headers: dict[str, str] = {}

    def request(self, job: str = "j1", *, token: str | None = SECRET, **query: Any) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=30)
        headers = {"Authorization": f"Bearer {token}".encode()} if token is not None else {}
        path = f"/v1/jobs/{quote(job, safe='')}/logs?{urlencode(query)}"
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as response:
            self.headers = dict(response.headers)
            body = response.read()
        connection.close()
        return response.status, body

    def read(self, **query: Any) -> bytes:
        status, body = self.request(attempt=1, offset=self.offset, **query)
        assert status == 200, body
        self.offset = self.headers[NEXT_OFFSET_HEADER.lower()]
        return body

    def read_all(self, **query: Any) -> bytes:
        parts = []
        while part := self.read(**query):
            parts.append(part)
        return b"".join(parts)

    def header(self, name: str) -> str:
        return self.headers[name.lower()]


@pytest.fixture
def attempts(tmp_path: Path) -> AttemptFiles:
    return AttemptFiles(tmp_path / "attempts")


@pytest.fixture
def reader(attempts: AttemptFiles) -> Iterator[Reader]:
    with serve_logs(attempts, SECRET) as address:
        yield Reader(address)


def test_log_is_read_in_pieces(attempts: AttemptFiles, reader: Reader) -> None:
    attempts.write("j1", 1, b"one\ntwo\n")
    assert reader.read(limit=5) == b"one\nt"
    assert reader.read(limit=5) == b"wo\n"
    assert reader.read() == b""
    attempts.write("j1", 1, b"three\n")
    assert reader.read() == b"three\n"
    assert (reader.header(ATTEMPT_OVER_HEADER), reader.header(GAP_HEADER), reader.header(ATTEMPT_HEADER)) == (
        "false",
        "false",
        "1",
    )


def test_response_marks_a_complete_log(attempts: AttemptFiles, reader: Reader) -> None:
    attempts.write("j1", 1, b"one\n")
    attempts.end("j1", 1)
    assert reader.read() == b"one\n"
    assert reader.header(ATTEMPT_OVER_HEADER) == "true"


def test_default_is_the_newest_attempt(attempts: AttemptFiles, reader: Reader) -> None:
    for attempt in (2, 10, 9):
        attempts.write("j1", attempt, str(attempt).encode())
    assert reader.request() == (200, b"10")


def test_attempt_without_output_has_an_empty_log(attempts: AttemptFiles, reader: Reader) -> None:
    attempts.directory("j1", 1)
    assert reader.read() == b""
    attempts.write("j1", 1, b"late")
    assert reader.read() == b"late"


def test_rotated_files_are_joined_oldest_first(attempts: AttemptFiles, reader: Reader) -> None:
    attempts.write("j1", 1, b"c")
    attempts.write("j1", 1, b"b", number=1)
    attempts.write("j1", 1, b"a", number=2)
    assert reader.read() == b"abc"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_rotation_neither_skips_nor_repeats_data(attempts: AttemptFiles, reader: Reader, seed: int) -> None:
    rng = random.Random(seed)
    attempts.write("j1", 1, b"")
    written = read = b""
    for _ in range(60):
        match rng.randrange(4):
            case 0:
                attempts.rotate("j1", 1, files=4)
                read += reader.read_all()  # read everything before the next rotation can delete it
            case 1:
                read += reader.read(limit=rng.randint(1, 40))
            case _:
                line = f"{len(written)}\n".encode() * rng.randint(1, 9)
                attempts.write("j1", 1, line)
                written += line
        assert reader.header(GAP_HEADER) == "false" if reader.headers else True
    assert read + reader.read_all() == written


def test_deleted_unread_data_is_reported_as_a_gap(attempts: AttemptFiles, reader: Reader) -> None:
    attempts.write("j1", 1, b"first file\n")
    assert reader.read(limit=5) == b"first"
    for number in range(4):
        attempts.rotate("j1", 1, files=3)
        attempts.write("j1", 1, f"file {number}\n".encode())
    assert reader.read() == b"file 1\nfile 2\nfile 3\n"
    assert reader.header(GAP_HEADER) == "true"
    assert reader.read() == b""
    assert reader.header(GAP_HEADER) == "false"


def test_reused_inode_is_detected(attempts: AttemptFiles, reader: Reader) -> None:
    """File systems reuse the inode of a deleted file."""
    log = attempts.directory("j1", 1) / "driver.log"
    log.write_bytes(b"old " * 10)
    reader.read(limit=20)
    inode = log.stat().st_ino
    with log.open("r+b") as file:  # keeps the inode
        file.write(b"new " * 10)
    assert log.stat().st_ino == inode
    assert reader.read() == b"new " * 10
    assert reader.header(GAP_HEADER) == "true"


@pytest.mark.slow
@pytest.mark.parametrize("last_newline", [b"", b"\n"])
@pytest.mark.parametrize("files", [1, 2, 3])
@pytest.mark.parametrize("tail", [0, 1, 2, 3, 5, 6, 7, 100])
def test_tail_returns_the_last_lines(
    attempts: AttemptFiles, reader: Reader, tail: int, files: int, last_newline: bytes
) -> None:
    lines = [f"line {number}\n".encode() for number in range(6)]
    lines[-1] = lines[-1].rstrip() + last_newline
    for index in range(files):
        attempts.write("j1", 1, b"")
        for line in lines[index * 6 // files : (index + 1) * 6 // files]:
            attempts.write("j1", 1, line)
        if index < files - 1 or tail == 2:  # also covers an empty newest file
            attempts.rotate("j1", 1, files=5)
    assert reader.read(tail=tail) == b"".join(lines[max(0, 6 - tail) :] if tail else [])
    attempts.write("j1", 1, b"more")
    assert reader.read() == b"more"


def test_tail_of_one_very_long_line_is_bounded(attempts: AttemptFiles, reader: Reader) -> None:
    attempts.write("j1", 1, b"x" * 6_000_000)
    assert 4_000_000 <= len(reader.read_all(limit=10**6) if reader.read(tail=1, limit=1) else b"") < 5_000_000


@pytest.mark.slow
@pytest.mark.parametrize("token", [None, "", "wrong", SECRET + "x", "Bearer", "\x00"])
def test_request_without_the_secret_is_rejected(attempts: AttemptFiles, reader: Reader, token: str | None) -> None:
    attempts.write("j1", 1, b"private")
    if token == "\x00":
        token = "%00"
    status, body = reader.request(token=token)
    assert status == 401
    assert b"secret is missing or wrong" in body and b"private" not in body
    assert reader.request("none", token=token)[0] == 401  # the response does not reveal which jobs exist


def test_node_without_a_secret_rejects_all_requests(attempts: AttemptFiles) -> None:
    attempts.write("j1", 1, b"private")
    for unknown in (None, ""):
        with serve_logs(attempts, unknown) as address:
            for token in (None, "", "None", SECRET):
                assert Reader(address).request(token=token)[0] == 503


@pytest.mark.slow
@pytest.mark.parametrize("job", ["none", "..", ".", "%2e%2e", "../../etc", "a b", "j1/../j1", "\x00", "j1\x00", "x" * 300, "ü"])
def test_unknown_job_is_not_found(attempts: AttemptFiles, reader: Reader, job: str) -> None:
    attempts.write("j1", 1, b"x")
    (attempts.root.parent / "1").mkdir()
    (attempts.root.parent / "1" / "driver.log").write_text("outside")
    status, body = reader.request(job, attempt=1)
    assert status == 404
    assert b"outside" not in body


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        {"attempt": "x"},
        {"attempt": "-1"},
        {"attempt": "../1"},
        {"attempt": "1_0"},
        {"attempt": "٣"},
        {"attempt": ""},
        {"attempt": "9" * 30},
        {"offset": "x"},
        {"offset": "-5"},
        {"offset": "1-2"},
        {"limit": "all"},
        {"tail": "-1"},
    ],
)
def test_invalid_parameters_are_rejected(attempts: AttemptFiles, reader: Reader, query: dict[str, str]) -> None:
    attempts.write("j1", 1, b"x")
    assert reader.request(**query)[0] == 400
    assert reader.request(attempt=7)[0] == 404


def test_limit_is_clamped(attempts: AttemptFiles, reader: Reader) -> None:
    attempts.write("j1", 1, b"x" * 3_000_000)
    assert len(reader.read(limit=0)) == 1
    assert len(reader.read(limit=999_999_999)) == 1024 * 1024


def test_only_regular_files_are_read(attempts: AttemptFiles, reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("private")
    directory = attempts.directory("j1", 1)
    (directory / "driver.log.1").symlink_to(tmp_path / "private")
    os.mkfifo(directory / "driver.log.2")
    (directory / "driver.log.3").mkdir()
    (directory / "driver.log").write_bytes(b"output")
    assert reader.read() == b"output"
