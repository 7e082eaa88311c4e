"""How much memory a driver and all that it started hold, and what the kernel says about it."""

import asyncio
from contextlib import suppress
from pathlib import Path

from holdfast.model.job import Ending, Outcome, Spec
from holdfast.model.size import MEMORY_CONF, parse_size
from holdfast.runner.watchdog import process_tree

LOOK_S = 1.0
_MB = 2**20


def kernel_oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since boot."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def limit_of(spec: Spec) -> int | None:
    """In bytes; None if the job has none. Raises Refused."""
    text = dict(spec.conf).get(MEMORY_CONF)
    return parse_size(text, what=MEMORY_CONF) if text else None


async def exceeded(nonce: str, limit: int) -> Outcome:
    """Returns when the processes hold more than they may. Before the kernel takes somebody else's instead."""
    while True:
        held = await asyncio.to_thread(process_tree.resident_bytes, nonce)
        if held > limit:
            reason = f"its processes held {held // _MB} MB, and {MEMORY_CONF} allows {limit // _MB} MB"
            return Outcome(Ending.OUT_OF_MEMORY, reason)
        await asyncio.sleep(LOOK_S)
