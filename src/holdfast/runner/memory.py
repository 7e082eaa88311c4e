"""What the kernel says about memory."""

from contextlib import suppress
from pathlib import Path


def kernel_oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since boot."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
