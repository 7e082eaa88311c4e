"""Store logs, or a time range of them, without names of the machine that they come from."""

import argparse
import gzip
import platform
import re
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Times at the start of a record, and in a JSON line.
_RECORD_TIME = re.compile(rb"\[?(20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d)")
_JSON_TIME = re.compile(rb'"time": "(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d)')
ALWAYS, FOREVER = "0", "9"
REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Scrub:
    """Names of this machine and their replacements, longest first."""

    pairs: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def of(cls, scratch: Path, *more: tuple[str, str]) -> "Scrub":
        known = (
            (str(scratch), "/srv"),
            (sys.prefix, "/opt/python"),
            (str(REPOSITORY), "/opt/holdfast"),
            (str(Path.home()), "/srv/home"),
            (tempfile.gettempdir(), "/srv/scratch"),
            (socket.gethostname(), "node-1"),
            (platform.release(), "6.1.0"),
            *more,
        )
        pairs = [(old.rstrip("/").encode(), new.encode()) for old, new in known]
        return cls(tuple(sorted(pairs, key=lambda pair: -len(pair[0]))))

    def __call__(self, data: bytes) -> bytes:
        """Replace whole names only: a short name may be part of any word."""
        for old, new in self.pairs:
            data = re.sub(rb"(?<![\w.-])" + re.escape(old) + rb"(?![\w-])", new, data)
        return data


def between(data: bytes, since: str, until: str) -> bytes:
    """Return the records with a time in [since, until), with all of their lines. Times are in UTC."""
    first, end = (time.replace("T", " ").encode() for time in (since, until))
    lines, within = [], False
    for line in data.splitlines(keepends=True):
        time = _RECORD_TIME.match(line) or _JSON_TIME.search(line)
        if time:
            within = first <= time[1].replace(b"T", b" ") < end
        if within:
            lines.append(line)
    return b"".join(lines)


def store(log: Path, stored: Path, scrub: Scrub, since: str = ALWAYS, until: str = FOREVER) -> None:
    """Compress a log, or a time range of it. The same bytes give the same file. An empty log gives none."""
    data = scrub(log.read_bytes())
    if (since, until) != (ALWAYS, FOREVER):
        data = between(data, since, until)
    if data:
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_bytes(gzip.compress(data, 9, mtime=0))
        sys.stdout.write(f"{stored}: {stored.stat().st_size} bytes\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.explain.record.log_store", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("logs", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--since", default=ALWAYS, metavar="YYYY-MM-DDTHH:MM:SS")
    parser.add_argument("--until", default=FOREVER, metavar="YYYY-MM-DDTHH:MM:SS")
    parser.add_argument("--hide", action="append", default=[], metavar="OLD=NEW", help="a path and its replacement")
    arguments = parser.parse_args()
    hidden = [(old, new) for old, _, new in (pair.partition("=") for pair in arguments.hide)]
    for name, _, file in (pair.partition("=") for pair in arguments.logs):
        store(
            Path(file), arguments.out / f"{name}.log.gz", Scrub.of(Path(file).parent, *hidden), arguments.since, arguments.until
        )


if __name__ == "__main__":
    main()
