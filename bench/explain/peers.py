"""What others do with the same file. Each gets the machine for itself, and the file is in memory before."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from drain3 import TemplateMiner
from drain3.template_miner_config import TemplateMinerConfig


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def lnav(path: Path) -> None:
    """Its index, and how many lines have a level: the cheapest question that needs all of it."""
    question = ";SELECT log_level, count(*) FROM all_logs GROUP BY log_level"
    subprocess.run(["lnav", "-n", "-c", question, str(path)], check=True, capture_output=True, timeout=600)


def grep(path: Path) -> None:
    subprocess.run(["grep", "-c", "fsync-ing the write ahead log", str(path)], check=False, capture_output=True, timeout=600)


def drain3(path: Path) -> None:
    """Each line is a message, as in its examples; what stands before the message is cut off at the first ` - `."""
    config = TemplateMinerConfig()
    config.profiling_enabled = False
    miner = TemplateMiner(config=config)
    with path.open(encoding="utf-8") as file:
        for line in file:
            miner.add_log_message(line.rstrip().partition(" - ")[2] or line)
