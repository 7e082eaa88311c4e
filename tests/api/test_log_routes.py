"""What a node tells about what its drivers printed, and to whom."""

import http.client
import os
import random
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import pytest

from holdfast.api.log_routes import ATTEMPT, GAP, NEXT, OVER
from tests.harness.node_stub import Attempts, serving

SECRET = "0123456789abcdef"


class Reader:
    """Asks again and again, from where it was."""

    def __init__(self, address: str) -> None:
        self._address = urlsplit(address)
        self.offset = "0"
        self.headers: dict[str, str] = {}

    def ask(self, job: str = "j1", *, token: str | None = SECRET, **query: object) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port, timeout=30)
        headers = {"Authorization": f"Bearer {token}".encode()} if token is not None else {}
        path = f"/v1/jobs/{quote(job, safe='')}/logs?{urlencode(query)}"
        connection.request("GET", path, headers=headers)  # type: ignore[arg-type]
        with connection.getresponse() as answer:
            self.headers = dict(answer.headers)
            body = answer.read()
        connection.close()
        return answer.status, body

    def read(self, **query: object) -> bytes:
        status, body = self.ask(attempt=1, offset=self.offset, **query)
        assert status == 200, body
        self.offset = self.headers[NEXT.lower()]
        return body

    def read_all(self, **query: object) -> bytes:
        parts = []
        while part := self.read(**query):
            parts.append(part)
        return b"".join(parts)

    def said(self, name: str) -> str:
        return self.headers[name.lower()]


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    return Attempts(tmp_path / "attempts")


@pytest.fixture
def reader(attempts: Attempts) -> Iterator[Reader]:
    with serving(attempts, SECRET) as address:
        yield Reader(address)


def test_what_was_printed_is_read_piece_by_piece(attempts: Attempts, reader: Reader) -> None:
    attempts.write("j1", 1, b"one\ntwo\n")
    assert reader.read(limit=5) == b"one\nt"
    assert reader.read(limit=5) == b"wo\n"
    assert reader.read() == b""
    attempts.write("j1", 1, b"three\n")
    assert reader.read() == b"three\n"
    assert (reader.said(OVER), reader.said(GAP), reader.said(ATTEMPT)) == ("false", "false", "1")


def test_that_nothing_will_be_added_is_told(attempts: Attempts, reader: Reader) -> None:
    attempts.write("j1", 1, b"one\n")
    attempts.end("j1", 1)
    assert reader.read() == b"one\n"
    assert reader.said(OVER) == "true"


def test_without_a_number_the_last_attempt_is_told(attempts: Attempts, reader: Reader) -> None:
    for attempt in (2, 10, 9):
        attempts.write("j1", attempt, str(attempt).encode())
    assert reader.ask() == (200, b"10")


def test_an_attempt_that_has_printed_nothing_is_empty(attempts: Attempts, reader: Reader) -> None:
    attempts.directory("j1", 1)
    assert reader.read() == b""
    attempts.write("j1", 1, b"late")
    assert reader.read() == b"late"


def test_files_are_told_as_one_and_the_oldest_first(attempts: Attempts, reader: Reader) -> None:
    attempts.write("j1", 1, b"c")
    attempts.write("j1", 1, b"b", number=1)
    attempts.write("j1", 1, b"a", number=2)
    assert reader.read() == b"abc"


@pytest.mark.parametrize("seed", range(20))
def test_a_reader_misses_nothing_and_reads_nothing_twice_through_rotations(
    attempts: Attempts, reader: Reader, seed: int
) -> None:
    chance = random.Random(seed)
    attempts.write("j1", 1, b"")
    written = read = b""
    for _ in range(60):
        match chance.randrange(4):
            case 0:
                attempts.rotate("j1", 1, files=4)
                read += reader.read_all()  # so that nothing unread is dropped
            case 1:
                read += reader.read(limit=chance.randint(1, 40))
            case _:
                line = f"{len(written)}\n".encode() * chance.randint(1, 9)
                attempts.write("j1", 1, line)
                written += line
        assert reader.said(GAP) == "false" if reader.headers else True
    assert read + reader.read_all() == written


def test_what_was_dropped_unread_is_told_as_a_gap(attempts: Attempts, reader: Reader) -> None:
    attempts.write("j1", 1, b"first file\n")
    assert reader.read(limit=5) == b"first"
    for number in range(4):
        attempts.rotate("j1", 1, files=3)
        attempts.write("j1", 1, f"file {number}\n".encode())
    assert reader.read() == b"file 1\nfile 2\nfile 3\n"
    assert reader.said(GAP) == "true"
    assert reader.read() == b""
    assert reader.said(GAP) == "false"


def test_an_inode_that_is_used_again_is_not_mistaken(attempts: Attempts, reader: Reader) -> None:
    """File systems give the number of a deleted file to the next one."""
    log = attempts.directory("j1", 1) / "driver.log"
    log.write_bytes(b"old " * 10)
    reader.read(limit=20)
    inode = log.stat().st_ino
    with log.open("r+b") as file:  # the same inode, for sure
        file.write(b"new " * 10)
    assert log.stat().st_ino == inode
    assert reader.read() == b"new " * 10
    assert reader.said(GAP) == "true"


@pytest.mark.parametrize("ends", [b"", b"\n"])
@pytest.mark.parametrize("files", [1, 2, 3])
@pytest.mark.parametrize("tail", [0, 1, 2, 3, 5, 6, 7, 100])
def test_the_last_lines_are_told(attempts: Attempts, reader: Reader, tail: int, files: int, ends: bytes) -> None:
    lines = [f"line {number}\n".encode() for number in range(6)]
    lines[-1] = lines[-1].rstrip() + ends
    for index in range(files):
        attempts.write("j1", 1, b"")
        for line in lines[index * 6 // files : (index + 1) * 6 // files]:
            attempts.write("j1", 1, line)
        if index < files - 1 or tail == 2:  # an empty newest file, too
            attempts.rotate("j1", 1, files=5)
    assert reader.read(tail=tail) == b"".join(lines[max(0, 6 - tail) :] if tail else [])
    attempts.write("j1", 1, b"more")
    assert reader.read() == b"more"


def test_the_tail_of_one_endless_line_is_bounded(attempts: Attempts, reader: Reader) -> None:
    attempts.write("j1", 1, b"x" * 6_000_000)
    assert 4_000_000 <= len(reader.read_all(limit=10**6) if reader.read(tail=1, limit=1) else b"") < 5_000_000


@pytest.mark.parametrize("token", [None, "", "wrong", SECRET + "x", "Bearer", "\x00"])
def test_nobody_without_the_secret_is_told_anything(attempts: Attempts, reader: Reader, token: str | None) -> None:
    attempts.write("j1", 1, b"private")
    if token == "\x00":
        token = "%00"
    status, body = reader.ask(token=token)
    assert status == 401
    assert b"secret is missing or wrong" in body and b"private" not in body
    assert reader.ask("none", token=token)[0] == 401  # nor whether there is such a job


def test_a_node_that_does_not_know_the_secret_tells_nobody(attempts: Attempts) -> None:
    attempts.write("j1", 1, b"private")
    for unknown in (None, ""):
        with serving(attempts, unknown) as address:
            for token in (None, "", "None", SECRET):
                assert Reader(address).ask(token=token)[0] == 503


@pytest.mark.parametrize("job", ["none", "..", ".", "%2e%2e", "../../etc", "a b", "j1/../j1", "\x00", "j1\x00", "x" * 300, "ü"])
def test_a_job_that_is_not_here_is_a_sentence(attempts: Attempts, reader: Reader, job: str) -> None:
    attempts.write("j1", 1, b"x")
    (attempts.root.parent / "1").mkdir()
    (attempts.root.parent / "1" / "driver.log").write_text("outside")
    status, body = reader.ask(job, attempt=1)
    assert status == 404
    assert b"outside" not in body


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
def test_odd_questions_are_refused(attempts: Attempts, reader: Reader, query: dict[str, str]) -> None:
    attempts.write("j1", 1, b"x")
    assert reader.ask(**query)[0] == 400
    assert reader.ask(attempt=7)[0] == 404


def test_a_limit_of_nothing_or_of_everything_is_bounded(attempts: Attempts, reader: Reader) -> None:
    attempts.write("j1", 1, b"x" * 3_000_000)
    assert len(reader.read(limit=0)) == 1
    assert len(reader.read(limit=999_999_999)) == 1024 * 1024


def test_what_a_driver_puts_in_place_of_its_log_is_not_told(attempts: Attempts, reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("private")
    directory = attempts.directory("j1", 1)
    (directory / "driver.log.1").symlink_to(tmp_path / "private")
    os.mkfifo(directory / "driver.log.2")
    (directory / "driver.log.3").mkdir()
    (directory / "driver.log").write_bytes(b"mine")
    assert reader.read() == b"mine"
