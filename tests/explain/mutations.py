"""Mutations of logs: damage by copying, truncating, mixing, re-encoding and broken disks."""

import bz2
import gzip
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow

from holdfast.explain.library import load_library
from tests.explain.corpus import SITUATIONS
from tests.harness import log_situations as situations
from tests.harness.log_scene import LogScene

Mutation = Callable[[random.Random, bytes], bytes]
ROUTINE_KEPT = 0.15
"""Share of routine lines that is kept, so that most inputs are small."""
SIZE_MAX = 60_000
"""Size above which an input is not enlarged further."""
_REPORTS = (situations.RESURRECTION, situations.OUT_OF_ORDER, situations.RESET, situations.NO_LOGS)
_OPINIONS = (
    "We think that it is the network.",
    "> On Monday somebody wrote:",
    "Has anybody seen this? It began at 10:04 or so, maybe 2026-03-04.",
    "```",
    "| time | what |",
    "somebody added a comment - 05/05/2026 09:24 PM",
    "",
)
_ODD = (
    b"\0", b"\0" * 40, b"\xff", b"\xfe\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\r", b"\r\n", b"\n", b"\n\n",
    b"\xef\xbb\xbf", b"\x1b[31m", b"\x1b[0m", b"\x1b]0;title\x07", b"\x1b[2J\x1b[H", b"\x08\x08", b"\x0b", b"\x0c", b"\x85",
    b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xae", b"\x7f", b"\t", b"   ", b"{", b'{"', b'"', b"\\", b"\\ud800", b"%",
    b"{0}", b"[", b"]" * 9, b"(" * 9, b"</script>", b"$", "٣".encode(), "①".encode(),
)  # fmt: skip  # one item per line is harder to read
_NUMBERS = (
    b"", b"0", b"-1", b"-99999999999999999999", b"99999999999", b"999999999999", b"9" * 400, b"1e309", b"0x",
    b"00000000000000001", "٣٣٣".encode(), b"18446744073709551616", b"1.5", b"NaN",
)  # fmt: skip  # one item per line is harder to read
_TIMES = (
    b"0001-01-01 00:00:00,000", b"9999-12-31 23:59:59,999", b"0000-00-00 00:00:00,000", b"2026-13-01 00:00:00,000",
    b"2026-02-30 12:00:00,000", b"2026-03-04 25:61:61,000", b"2026-03-04 24:00:00,000", b"2026-03-04 12:99:99,000",
    b"1969-12-31 23:59:59,999", b"2026-03-04 23:59:60,999", b"9999-12-31T23:59:59.999-23:59",
    b"0001-01-01T00:00:00.000+23:59", b"2026-03-04T12:00:00.000+99:99", b"2026-03-04T12:00:00.123456789Z",
    b"2026-03-04 12:00:00,000 -0800", b"26/02/30 12:00:00", b"Feb 30 12:00:00", b"Xyz 10 10:10:10", b"99:99:99",
    b"00:00:00", b"March 4th 0001, 02:35:01.711", "٢٠٢٦-03-04 12:00:00,000".encode(),
)  # fmt: skip  # one item per line is harder to read
_TIME = re.compile(rb"\d{2,4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?|\d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    stored: bytes
    """Contents of the file."""
    data: bytes
    """Contents after decompression, if the file is intact."""
    damaged: bool = False
    """True if the compressed file is damaged."""
    story: str = ""


def seeds(directory: Path, rng: random.Random) -> list[list[bytes]]:
    """Return groups of related files: all situations of the corpus, reports, and the examples of the library."""
    found = [[report.encode()] for report in _REPORTS]
    for number, play in enumerate(dict.fromkeys(SITUATIONS)):
        scene = LogScene(rng.randrange(1 << 30))
        play(scene)
        place = directory / f"{number}"
        place.mkdir()
        found.append([_drop_routine_lines(rng, path.read_bytes()) for path in scene.write(place)])
    known = load_library()
    examples = [example for pattern in known.patterns.all for example in pattern.examples]
    found.append(["\n".join(examples).encode(), "\n".join(e for format in known.formats.all for e in format.examples).encode()])
    found += [[_report(rng, files)] for files in found[len(_REPORTS) :]]
    found += [[_in_docker(one) for one in files] for files in found[len(_REPORTS) : len(_REPORTS) + 20 : 3]]
    return found


def _drop_routine_lines(rng: random.Random, data: bytes) -> bytes:
    says = re.compile(b"|".join(re.escape(one.encode()) for pattern in load_library().patterns.all for one in pattern.literals))
    return b"".join(
        line
        for line in data.splitlines(keepends=True)
        if says.search(line) or line.startswith(b"\t") or rng.random() < ROUTINE_KEPT
    )


def _report(rng: random.Random, files: Sequence[bytes]) -> bytes:
    """Return a report that quotes lines of several logs, wrapped and indented, with opinions in between."""
    text = [rng.choice(_OPINIONS)]
    for line in rng.choice(files).decode(errors="replace").splitlines():
        if rng.random() < 0.2:
            text += ["", rng.choice(_OPINIONS), ""]
        indent = rng.choice(("", "", "\t", "    ", "> "))
        at = rng.randrange(1, len(line)) if len(line) > 60 and rng.random() < 0.2 else len(line)
        text += [indent + line[:at], *([indent + line[at:]] if at < len(line) else [])]
    return "\n".join(text).encode()


def _in_docker(data: bytes) -> bytes:
    lines = data.decode(errors="replace").replace('"', '\\"').replace("\t", "\\t").splitlines()
    return "".join(
        f'{{"log":"{line}\\n","stream":"stdout","time":"2026-03-04T12:00:00.{n:09d}Z"}}\n' for n, line in enumerate(lines)
    ).encode()


def _at(rng: random.Random, data: bytes) -> int:
    return rng.randrange(len(data) + 1)


def flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 20)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def delete(rng: random.Random, data: bytes) -> bytes:
    begin = _at(rng, data)
    return data[:begin] + data[begin + rng.choice((1, 1, 3, 40, 400)) :]


def double(rng: random.Random, data: bytes) -> bytes:
    begin = _at(rng, data)
    end = begin + rng.choice((1, 10, 100, 1000))
    return data[:end] + data[begin:end] + data[end:]


def insert(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.randrange(1, 8)):
        at = rng.choice((0, _at(rng, data), data.find(b"\n", _at(rng, data)) + 1))
        data = data[:at] + rng.choice(_ODD) + data[at:]
    return data


def truncate(rng: random.Random, data: bytes) -> bytes:
    begin, end = sorted((_at(rng, data), _at(rng, data)))
    return rng.choice((data[:end], data[begin:], data[begin:end]))


def mid_character(rng: random.Random, data: bytes) -> bytes:
    at = _at(rng, data)
    return data[:at] + "日本語 ünï 😀".encode()[: rng.randrange(1, 20)] + data[at:] + "😀".encode()[: rng.randrange(1, 4)]


def swap(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    for _ in range(rng.randrange(1, 10)):
        if lines:
            one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def join(rng: random.Random, data: bytes) -> bytes:
    """Join lines, so that headers are in the middle of lines."""
    return b"".join(line.rstrip(b"\n") if rng.random() < 0.3 else line for line in data.splitlines(keepends=True))


def wrap(rng: random.Random, data: bytes) -> bytes:
    width = rng.choice((1, 7, 40, 80, 120))
    return b"\n".join(line[at : at + width] for line in data.split(b"\n") for at in range(0, max(len(line), 1), width))


def indent(rng: random.Random, data: bytes) -> bytes:
    before = rng.choice((b" ", b"\t", b"    ", b"> ", b"\x1b[32m", b"\xc2\xa0"))
    return b"".join(before + line if rng.random() < 0.8 else line for line in data.splitlines(keepends=True))


def repeat(rng: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if lines:
        at = rng.randrange(len(lines))
        lines[at] *= rng.choice((2, 60, 1000 if len(lines[at]) < 300 and rng.random() < 0.1 else 3))
    return b"".join(lines)


def numbers(rng: random.Random, data: bytes) -> bytes:
    return re.sub(rb"\d+", lambda match: rng.choice(_NUMBERS) if rng.random() < 0.1 else match[0], data)


def times(rng: random.Random, data: bytes) -> bytes:
    return _TIME.sub(lambda match: rng.choice(_TIMES) if rng.random() < 0.3 else match[0], data)


def zones(rng: random.Random, data: bytes) -> bytes:
    zone = rng.choice((b"Z", b"+02:00", b"-0800", b" +1400", b"-12:00", b"+00:00"))
    return re.sub(rb"(\d\d:\d\d:\d\d[.,]\d{3})(?=[ \]])", rb"\g<1>" + zone, data)


def carriage(rng: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\r\r\n", b"\n\r")))


def utf_16(rng: random.Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32")))


def break_json(rng: random.Random, data: bytes) -> bytes:
    lines = (
        b'{"event": "leading", "time": "2026-03-04T12:00:00Z", "epoch": 3, "node": "\\ud800"}', b'{"a": ' * 200,
        b'{"time": 1e999, "event": "x"}',
        b'{"event": "leadership lost", "time": "9999-12-31T23:59:59.999-23:59", "node": ["x"]}', b'{"time": null}',
        b'{"":""}', b'{"',
        b'{"log":"' + data[:80].replace(b"\n", b"\\n") + b'","stream":"stdout","time":"2026-03-04T12:00:00Z"}',
        b'{"duration_ms": -5, "job": "x", "phase": "PARKED", "reason": "\\ud83d", "time": "2026-03-04T12:00:00Z", '
        b'"node": "\\u001b[2J"}',
    )  # fmt: skip  # one item per line is harder to read
    at = data.find(b"\n", _at(rng, data)) + 1
    return data[:at] + b"".join(line[: rng.choice((len(line), 20))] + b"\n" for line in rng.sample(lines, 4)) + data[at:]


def nothing(rng: random.Random, data: bytes) -> bytes:
    return rng.choice(
        (b"", b"\n", b"\n" * 1000, b" \t\n" * 50, b"\r\n" * 9, b"\0" * 100, b"\xef\xbb\xbf", b"x", data, data, data)
    )


MUTATIONS: tuple[Mutation, ...] = (
    flip, delete, double, insert, insert, truncate, mid_character, swap, join, wrap, indent, repeat, numbers, numbers,
    times, times, zones, carriage, utf_16, break_json, nothing,
)  # fmt: skip  # one item per line is harder to read
_PACKED = (("gz", gzip.compress), ("zst", lambda data: pyarrow.compress(data, "zstd", asbytes=True)), ("bz2", bz2.compress))


def mutants(rng: random.Random, known: Sequence[Sequence[bytes]]) -> list[Mutant]:
    """Return the files of one input."""
    files = list(rng.choice(known))
    rng.shuffle(files)
    return [_mutant(rng, number, one, known) for number, one in enumerate(files[: rng.choice((1, 1, 1, 2, 3))])]


def _mutant(rng: random.Random, number: int, data: bytes, known: Sequence[Sequence[bytes]]) -> Mutant:
    story = []
    if rng.random() < 0.1:
        data = mix(rng, data, rng.choice(rng.choice(known)))
        story.append("mix")
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        mutation = rng.choice(MUTATIONS)
        if len(data) < SIZE_MAX or mutation in (flip, delete, truncate, swap):
            data = mutation(rng, data)
            story.append(mutation.__name__)
    name = f"{number}.log"
    if rng.random() > 0.1:
        return Mutant(name, data, data, story=", ".join(story))
    suffix, packed = rng.choice(_PACKED)
    stored, damage = packed(data), rng.choice((None, truncate, flip, delete))
    broken = damage(rng, stored) if damage is not None else stored
    return Mutant(
        f"{name}.{suffix}", broken, data, broken != stored, ", ".join([*story, suffix, damage.__name__ if damage else "whole"])
    )


def mix(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """Interleave the lines of two files."""
    lines = [(rng.random(), line) for line in other.splitlines(keepends=True)]
    mine = data.splitlines(keepends=True)
    lines += [(number / (len(mine) + 1), line) for number, line in enumerate(mine)]
    return b"".join(line for _, line in sorted(lines, key=lambda pair: pair[0]))
