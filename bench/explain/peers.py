"""Other tools on the same file. Each runs alone, and the file is in the page cache."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from drain3 import TemplateMiner
from drain3.template_miner_config import TemplateMinerConfig


def measure_s(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def lnav(path: Path) -> None:
    """Build lnav's index and count lines per level, the cheapest query that needs the whole index."""
    question = ";SELECT log_level, count(*) FROM all_logs GROUP BY log_level"
    subprocess.run(["lnav", "-n", "-c", question, str(path)], check=True, capture_output=True, timeout=600)


def grep(path: Path) -> None:
    subprocess.run(["grep", "-c", "fsync-ing the write ahead log", str(path)], check=False, capture_output=True, timeout=600)


def drain3(path: Path) -> None:
    """Feed each line to Drain3 without its header, which ends at the first ` - `."""
    config = TemplateMinerConfig()
    config.profiling_enabled = False
    miner = TemplateMiner(config=config)
    with path.open(encoding="utf-8") as file:
        for line in file:
            miner.add_log_message(line.rstrip().partition(" - ")[2] or line)
