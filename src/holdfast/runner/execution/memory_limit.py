"""Memory limit of a driver and its descendants, and the kernel's own out-of-memory kills."""

import asyncio
from contextlib import suppress
from pathlib import Path

from holdfast.model.job import Ending, Outcome, Spec
from holdfast.model.size import MEMORY_CONF, parse_size
from holdfast.runner.watchdog import process_tree

POLL_S = 1.0
_MB = 2**20


def kernel_oom_kills() -> int:
    """Return the number of processes that the kernel has killed since boot because memory ran out."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def memory_limit_bytes(spec: Spec) -> int | None:
    """Return the job's memory limit, or None if it has none. Raises Refused for an invalid size."""
    text = dict(spec.conf).get(MEMORY_CONF)
    return parse_size(text, what=MEMORY_CONF) if text else None


async def wait_until_exceeded(nonce: str, limit: int) -> Outcome:
    """Return an outcome once the attempt uses more than `limit` bytes, so that the kernel does not kill another process."""
    while True:
        used = await asyncio.to_thread(process_tree.resident_bytes, nonce)
        if used > limit:
            reason = f"the driver's processes used {used // _MB} MB, but {MEMORY_CONF} allows {limit // _MB} MB"
            return Outcome(Ending.OUT_OF_MEMORY, reason)
        await asyncio.sleep(POLL_S)
