"""Accuracy of log templates, compared with Drain3: on LogHub's labelled samples and on generated lines.

HOLDFAST_LOGHUB, or the argument of `python -m bench.explain_templates`, names a directory that contains
`Zookeeper_2k.log_structured.csv` and `Spark_2k.log_structured.csv`, at any depth. Both tools get the messages without
headers, as in LogHub's own benchmark. Accuracy is LogHub's: the share of lines whose group has exactly the lines of their
template.
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

from holdfast.explain.library import load_library
from holdfast.explain.scan.record_scan import FileMode, scan_records
from tests.harness.log_scene import ROUTINE

LOGHUB = ("Zookeeper", "Spark")
STRUCTURED = "_2k.log_structured.csv"
LINES = 2000
"""Number of lines in a LogHub sample."""
HEADER = b"2026-11-16 12:00:00,000 INFO  a.B - "
"""Header that makes each message a record; the same for all messages."""
MASKS = (r"(/|)(\d+\.){3}\d+(:\d+)?", r"\b[KGTM]?i?B\b", r"\b0x[0-9a-f]+\b", r"\b[0-9a-f]{32}\b", r"\b\d+\b")
"""Masks for the second Drain3 figure: addresses, units, ids, numbers."""
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
"""Names without digits. Holdfast does not treat them as variable parts."""
_VARIES = re.compile(r"\b0x[0-9a-f]+|\b[0-9a-f]{32}\b|\d+")
Grouping = Callable[[Sequence[str]], Sequence[Hashable]]


@dataclass(frozen=True, slots=True)
class LabelledLines:
    name: str
    messages: tuple[str, ...]
    labels: tuple[str, ...]


def main() -> None:
    directory = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else os.environ.get("HOLDFAST_LOGHUB", "")
    sets = [generate_lines(), vary_names(generate_lines())]
    for name in LOGHUB if directory else ():
        sets += [read_loghub(path, name) for path in sorted(Path(directory).rglob(f"{name}{STRUCTURED}"))]
    if len(sets) == 2:
        wanted = " and ".join(name + STRUCTURED for name in LOGHUB)
        print(f"  for LogHub's samples, HOLDFAST_LOGHUB has to name a directory with {wanted}")
    group_by_template(("",))  # compile the scanner before timing
    for one in sets:
        print(f"  {one.name}: {len(one.messages):,} lines of {len(set(one.labels))} templates")
        for name, grouping in GROUPINGS.items():
            begun = time.perf_counter()
            groups = grouping(one.messages)
            taken_s = time.perf_counter() - begun
            share = grouping_accuracy(groups, one.labels)
            print(f"    {name:18} accuracy {share:.3f}, {len(set(groups)):,} groups, {taken_s * 1000:.0f} ms")


def read_loghub(path: Path, name: str) -> LabelledLines:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return LabelledLines(f"LogHub {name}", tuple(row["Content"] for row in rows), tuple(row["EventId"] for row in rows))


def generate_lines(seed: int = 1) -> LabelledLines:
    """Generate routine lines of four systems, and each example of an event with other numbers."""
    rng = random.Random(seed)
    templates = [text for texts in ROUTINE.values() for text in texts] + list(_OURS)
    known = load_library()
    headers = [format for format in known.formats.all if not format.prose and not format.json]
    examples = {
        example.splitlines()[0][max(format.read_header(example.splitlines()[0]).message_at for format in headers) :]
        for pattern in known.patterns.all
        for example in pattern.examples
    }
    labelled = [(_format(rng, text), text) for text in templates for _ in range(LINES // 2 // len(templates))]
    for example in sorted(examples):
        label = _VARIES.sub("*", example)
        labelled += [
            (_VARIES.sub(lambda match: _replacement(rng, match[0]), example), label) for _ in range(LINES // 2 // len(examples))
        ]
    rng.shuffle(labelled)
    return LabelledLines("generated", tuple(message for message, _ in labelled), tuple(label for _, label in labelled))


def vary_names(one: LabelledLines, seed: int = 1) -> LabelledLines:
    """Replace names of topics and jobs by names that vary from line to line."""
    rng = random.Random(seed)
    names = re.compile("|".join(rf"\b{name}\b" for name in sorted(_NAMES, reverse=True)))
    messages = (names.sub(lambda match: rng.choice(_NAMES[match[0]]), message) for message in one.messages)
    return LabelledLines(f"{one.name}, with varying names", tuple(messages), one.labels)


def _format(rng: random.Random, text: str) -> str:
    size = f"{rng.uniform(1, 999):.1f} {rng.choice(('B', 'KiB', 'MiB', 'GiB'))}"
    return text.format(n=rng.randrange(1 << 40), k=rng.randrange(9), size=size)


def _replacement(rng: random.Random, text: str) -> str:
    """Return another number or id of the same kind."""
    if text.startswith("0x"):
        return f"0x{rng.randrange(1 << 60):x}"
    return f"{rng.randrange(1 << 128):032x}" if len(text) == 32 else str(rng.randrange(10 ** rng.randrange(1, 7)))


def group_by_template(messages: Sequence[str]) -> Sequence[int]:
    known = load_library()
    data = b"".join(HEADER + message.replace("\n", " ").encode() + b"\n" for message in messages)
    shapes, wrappers = known.formats.header_table(FileMode.LOG), known.formats.wrapper_table
    found = scan_records(data, len(data), FileMode.LOG, shapes, wrappers=wrappers, compiled=True)
    groups: list[int] = found.templates.tolist()
    return groups


def group_with_drain3(messages: Sequence[str]) -> Sequence[int]:
    return _mine(messages, ())


def group_with_masked_drain3(messages: Sequence[str]) -> Sequence[int]:
    return _mine(messages, MASKS)


def _mine(messages: Sequence[str], masks: Sequence[str]) -> Sequence[int]:
    config = TemplateMinerConfig()
    config.masking_instructions = [MaskingInstruction(mask, "*") for mask in masks]
    miner = TemplateMiner(config=config)
    return [miner.add_log_message(message)["cluster_id"] for message in messages]


GROUPINGS: dict[str, Grouping] = {
    "holdfast": group_by_template,
    "Drain3": group_with_drain3,
    "Drain3, with masks": group_with_masked_drain3,
}


def grouping_accuracy(groups: Sequence[Hashable], labels: Sequence[str]) -> float:
    sizes = Counter(labels)
    of_group: dict[Hashable, Counter[str]] = defaultdict(Counter)
    for group, label in zip(groups, labels, strict=True):
        of_group[group][label] += 1
    right = sum(n for members in of_group.values() if len(members) == 1 for label, n in members.items() if n == sizes[label])
    return right / len(labels)


if __name__ == "__main__":
    main()
