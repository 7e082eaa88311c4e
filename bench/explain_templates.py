"""How well records are grouped by what they look like, against Drain3: on LogHub's labelled samples, and on lines of our own.

HOLDFAST_LOGHUB, or the argument of `python -m bench.explain_templates`, names the directory in or below which there are
`Zookeeper_2k.log_structured.csv` and `Spark_2k.log_structured.csv`. Both are told the messages alone, as LogHub's own benchmark
does. Accuracy is LogHub's: the share of lines whose group has exactly the lines of their template.
"""

import csv
import os
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from drain3 import TemplateMiner
from drain3.masking import MaskingInstruction
from drain3.template_miner_config import TemplateMinerConfig

from holdfast.explain.library import library
from holdfast.explain.scan.record_scan import Mode, sweep
from tests.explain.scene import ROUTINE

LOGHUB = ("Zookeeper", "Spark")
STRUCTURED = "_2k.log_structured.csv"
LINES = 2000
"""As many as LogHub's samples have."""
HEADER = b"2026-11-16 12:00:00,000 INFO  a.B - "
"""Before each message, so that it is a record: the same for all."""
MASKS = (r"(/|)(\d+\.){3}\d+(:\d+)?", r"\b[KGTM]?i?B\b", r"\b0x[0-9a-f]+\b", r"\b[0-9a-f]{32}\b", r"\b\d+\b")
"""What Drain3 is told to leave out, in the second of its figures: addresses, units, ids, numbers."""
_OURS = (
    "Block broadcast_{k} stored as values in memory (estimated size {size}, free {size})",
    "Removed broadcast_{k}_piece0 on node{k}:{n} in memory (size: {size}, free: {size})",
    "Finished task {k}.0 in stage {n}.0 (TID {n}) in {n} ms on node{k} (executor {k}) ({k}/{n})",
)
_NAMES = {
    "clicks": ("clicks", "orders", "payments"),
    "words": ("words", "sums", "alerts"),
    "word-count": ("word-count", "fraud"),
}
"""Without digits in them: what differs in these looks different to us."""
_VARIES = re.compile(r"\b0x[0-9a-f]+|\b[0-9a-f]{32}\b|\d+")
Grouping = Callable[[Sequence[str]], Sequence[Hashable]]


@dataclass(frozen=True, slots=True)
class Labelled:
    name: str
    messages: tuple[str, ...]
    labels: tuple[str, ...]


def main() -> None:
    directory = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else os.environ.get("HOLDFAST_LOGHUB", "")
    sets = [of_our_own(), with_other_names(of_our_own())]
    for name in LOGHUB if directory else ():
        sets += [of_loghub(path, name) for path in sorted(Path(directory).rglob(f"{name}{STRUCTURED}"))]
    if len(sets) == 2:
        wanted = " and ".join(name + STRUCTURED for name in LOGHUB)
        print(f"  for LogHub's samples, HOLDFAST_LOGHUB has to name a directory with {wanted}")
    looks(("",))  # so that nobody pays for the compiler
    for one in sets:
        print(f"  {one.name}: {len(one.messages):,} lines of {len(set(one.labels))} templates")
        for name, grouping in GROUPINGS.items():
            begun = time.perf_counter()
            groups = grouping(one.messages)
            taken_s = time.perf_counter() - begun
            share = accuracy(groups, one.labels)
            print(f"    {name:18} accuracy {share:.3f}, {len(set(groups)):,} groups, {taken_s * 1000:.0f} ms")


def of_loghub(path: Path, name: str) -> Labelled:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return Labelled(f"LogHub {name}", tuple(row["Content"] for row in rows), tuple(row["EventId"] for row in rows))


def of_our_own(seed: int = 1) -> Labelled:
    """Routine of four systems, and every example of an event with other numbers in it."""
    chance = random.Random(seed)
    templates = [text for texts in ROUTINE.values() for text in texts] + list(_OURS)
    known = library()
    headers = [format for format in known.formats.all if not format.prose and not format.json]
    examples = {
        example.splitlines()[0][max(format.read(example.splitlines()[0]).message_at for format in headers) :]
        for pattern in known.patterns.all
        for example in pattern.examples
    }
    labelled = [(_said(chance, text), text) for text in templates for _ in range(LINES // 2 // len(templates))]
    for example in sorted(examples):
        label = _VARIES.sub("*", example)
        labelled += [
            (_VARIES.sub(lambda found: _other(chance, found[0]), example), label) for _ in range(LINES // 2 // len(examples))
        ]
    chance.shuffle(labelled)
    return Labelled("our own", tuple(message for message, _ in labelled), tuple(label for _, label in labelled))


def with_other_names(one: Labelled, seed: int = 1) -> Labelled:
    """Topics and jobs that are called differently from line to line."""
    chance = random.Random(seed)
    names = re.compile("|".join(rf"\b{name}\b" for name in sorted(_NAMES, reverse=True)))
    messages = (names.sub(lambda found: chance.choice(_NAMES[found[0]]), message) for message in one.messages)
    return Labelled(f"{one.name}, with names that vary", tuple(messages), one.labels)


def _said(chance: random.Random, text: str) -> str:
    size = f"{chance.uniform(1, 999):.1f} {chance.choice(('B', 'KiB', 'MiB', 'GiB'))}"
    return text.format(n=chance.randrange(1 << 40), k=chance.randrange(9), size=size)


def _other(chance: random.Random, text: str) -> str:
    """As long as it was, if it is an id."""
    if text.startswith("0x"):
        return f"0x{chance.randrange(1 << 60):x}"
    return f"{chance.randrange(1 << 128):032x}" if len(text) == 32 else str(chance.randrange(10 ** chance.randrange(1, 7)))


def looks(messages: Sequence[str]) -> Sequence[int]:
    known = library()
    data = b"".join(HEADER + message.replace("\n", " ").encode() + b"\n" for message in messages)
    shapes, wrappers = known.formats.shapes(Mode.LOG), known.formats.wrappers
    found = sweep(data, len(data), Mode.LOG, shapes, wrappers=wrappers, compiled=True)
    groups: list[int] = found.looks.tolist()
    return groups


def drain(messages: Sequence[str]) -> Sequence[int]:
    return _mined(messages, ())


def drain_masked(messages: Sequence[str]) -> Sequence[int]:
    return _mined(messages, MASKS)


def _mined(messages: Sequence[str], masks: Sequence[str]) -> Sequence[int]:
    config = TemplateMinerConfig()
    config.masking_instructions = [MaskingInstruction(mask, "*") for mask in masks]
    miner = TemplateMiner(config=config)
    return [miner.add_log_message(message)["cluster_id"] for message in messages]


GROUPINGS: dict[str, Grouping] = {"holdfast": looks, "Drain3": drain, "Drain3, with masks": drain_masked}


def accuracy(groups: Sequence[Hashable], labels: Sequence[str]) -> float:
    sizes = Counter(labels)
    of_group: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for group, label in zip(groups, labels, strict=True):
        of_group[group][label] += 1
    right = sum(n for members in of_group.values() if len(members) == 1 for label, n in members.items() if n == sizes[label])
    return right / len(labels)


if __name__ == "__main__":
    main()
