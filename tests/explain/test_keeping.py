"""What is kept of a log: whole records, and no name of a machine."""

import gzip
import socket
from pathlib import Path

from tests.explain.record.keeping import Scrub, between, keep

LOG = b"""\
2026-11-16 13:01:59,999 [myid:1] - INFO  [main:X@1] - before
2026-11-16 13:02:00,000 [myid:1] - WARN  [main:X@1] - within
java.io.EOFException
\tat a.b(C.java:1)
{"event": "x", "time": "2026-11-16T13:02:01.5Z"}
[2026-11-16 13:02:03,000] INFO after (x)
\tat a.b(C.java:1)
"""


def test_a_range_of_a_log_has_whole_records_whatever_their_shape() -> None:
    assert between(LOG, "2026-11-16T13:02:00", "2026-11-16T13:02:03") == b"".join(LOG.splitlines(keepends=True)[1:5])


def test_names_of_the_machine_are_replaced_where_they_are_whole_words(tmp_path: Path) -> None:
    host = socket.gethostname()
    log = tmp_path / "server.log"
    log.write_text(f"{tmp_path}/data on {host}: x{host}x, /old/place/a and /old/places\n")
    scrub = Scrub.of(tmp_path, ("/old/place", "/new"))
    assert scrub(log.read_bytes()) == f"/srv/data on node-1: x{host}x, /new/a and /old/places\n".encode()


def test_the_same_log_gives_the_same_file_and_an_empty_one_none(tmp_path: Path) -> None:
    log, scrub = tmp_path / "server.log", Scrub.of(tmp_path)
    log.write_bytes(LOG)
    kept = [tmp_path / "kept" / name for name in ("one.log.gz", "another.log.gz", "none.log.gz")]
    for one in kept[:2]:
        keep(log, one, scrub)
    keep(log, kept[2], scrub, "2027-01-01T00:00:00", "2027-01-02T00:00:00")
    assert kept[0].read_bytes() == kept[1].read_bytes()
    assert gzip.decompress(kept[0].read_bytes()) == LOG
    assert not kept[2].exists()
