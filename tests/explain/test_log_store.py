"""Storing recorded logs: whole records, without names of the recording machine."""

import gzip
import socket
from pathlib import Path

from tests.explain.record.log_store import Scrub, between, store

LOG = b"""\
2026-11-16 13:01:59,999 [myid:1] - INFO  [main:X@1] - before
2026-11-16 13:02:00,000 [myid:1] - WARN  [main:X@1] - within
java.io.EOFException
\tat a.b(C.java:1)
{"event": "x", "time": "2026-11-16T13:02:01.5Z"}
[2026-11-16 13:02:03,000] INFO after (x)
\tat a.b(C.java:1)
"""


def test_time_range_contains_whole_records() -> None:
    assert between(LOG, "2026-11-16T13:02:00", "2026-11-16T13:02:03") == b"".join(LOG.splitlines(keepends=True)[1:5])


def test_names_of_the_machine_are_replaced_as_whole_words(tmp_path: Path) -> None:
    host = socket.gethostname()
    log = tmp_path / "server.log"
    log.write_text(f"{tmp_path}/data on {host}: x{host}x, /old/place/a and /old/places\n")
    scrub = Scrub.of(tmp_path, ("/old/place", "/new"))
    assert scrub(log.read_bytes()) == f"/srv/data on node-1: x{host}x, /new/a and /old/places\n".encode()


def test_same_log_gives_the_same_file_and_empty_log_gives_none(tmp_path: Path) -> None:
    log, scrub = tmp_path / "server.log", Scrub.of(tmp_path)
    log.write_bytes(LOG)
    stored = [tmp_path / "stored" / name for name in ("one.log.gz", "another.log.gz", "none.log.gz")]
    for one in stored[:2]:
        store(log, one, scrub)
    store(log, stored[2], scrub, "2027-01-01T00:00:00", "2027-01-02T00:00:00")
    assert stored[0].read_bytes() == stored[1].read_bytes()
    assert gzip.decompress(stored[0].read_bytes()) == LOG
    assert not stored[2].exists()
