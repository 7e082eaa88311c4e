"""Keeping logs: whole, or what was said within a range of time, without the names of the machine that they come from."""

import argparse
import gzip
import platform
import re
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

# Of a line that begins a record, and of one that is JSON.
_BEGINS = re.compile(rb"\[?(20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d)")
_SAYS = re.compile(rb'"time": "(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d)')
ALWAYS, FOREVER = "0", "9"
REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Scrub:
    """What is of this machine, and what is written for it: longest first."""

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
        """Only whole names: a short one may be a part of any word."""
        for old, new in self.pairs:
            data = re.sub(rb"(?<![\w.-])" + re.escape(old) + rb"(?![\w-])", new, data)
        return data


def between(data: bytes, since: str, until: str) -> bytes:
    """The records whose time lies in [since, until), with all of their lines. Times as the log writes them, in UTC."""
    first, end = (moment.replace("T", " ").encode() for moment in (since, until))
    kept, within = [], False
    for line in data.splitlines(keepends=True):
        told = _BEGINS.match(line) or _SAYS.search(line)
        if told:
            within = first <= told[1].replace(b"T", b" ") < end
        if within:
            kept.append(line)
    return b"".join(kept)


def keep(log: Path, kept: Path, scrub: Scrub, since: str = ALWAYS, until: str = FOREVER) -> None:
    """The same bytes give the same file: neither name nor time is in it. Of a log that said nothing then, nothing is kept."""
    data = scrub(log.read_bytes())
    if (since, until) != (ALWAYS, FOREVER):
        data = between(data, since, until)
    if data:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(gzip.compress(data, 9, mtime=0))
        sys.stdout.write(f"{kept}: {kept.stat().st_size} bytes\n")


def main() -> None:
    told = argparse.ArgumentParser(prog="python -m tests.explain.record.keeping", description=__doc__)
    told.add_argument("out", type=Path)
    told.add_argument("logs", nargs="+", metavar="NAME=FILE")
    told.add_argument("--since", default=ALWAYS, metavar="YYYY-MM-DDTHH:MM:SS")
    told.add_argument("--until", default=FOREVER, metavar="YYYY-MM-DDTHH:MM:SS")
    told.add_argument("--hide", action="append", default=[], metavar="OLD=NEW", help="a path, and what to write for it")
    asked = told.parse_args()
    hidden = [(old, new) for old, _, new in (pair.partition("=") for pair in asked.hide)]
    for name, _, file in (pair.partition("=") for pair in asked.logs):
        keep(Path(file), asked.out / f"{name}.log.gz", Scrub.of(Path(file).parent, *hidden), asked.since, asked.until)


if __name__ == "__main__":
    main()
