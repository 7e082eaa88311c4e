"""Load of this machine, from the kernel's pressure information or from the load average."""

import os
from pathlib import Path

PROC = Path("/proc")
WAITING_PERCENT_MAX = 40.0
"""Share of the last minute in which processes waited for a CPU, above which the machine is overloaded."""
LOAD_PER_CPU_MAX = 1.0
"""Load average of the last minute per CPU, for kernels without pressure information."""


def find_overload(proc: Path = PROC, *, cpus: int | None = None) -> str:
    """Return the reason why this machine has no time for background work, or an empty string. `cpus` is for tests."""
    try:
        waiting = _read_waiting_percent(proc / "pressure" / "cpu")
    except (OSError, ValueError, LookupError, StopIteration):  # the kernel can be built or started without pressure information
        return _find_high_load_average(proc, cpus or len(os.sched_getaffinity(0)))
    if waiting <= WAITING_PERCENT_MAX:
        return ""
    return f"processes waited for a CPU during {waiting:.0f} % of the last minute (limit: {WAITING_PERCENT_MAX:.0f} %)"


def _read_waiting_percent(file: Path) -> float:
    """Return `avg60` of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`."""
    some = next(line for line in file.read_text().splitlines() if line.startswith("some "))
    return float(dict(field.split("=") for field in some.split()[1:])["avg60"])


def _find_high_load_average(proc: Path, cpus: int) -> str:
    try:
        load = float((proc / "loadavg").read_text().split()[0])
    except (OSError, ValueError, LookupError):
        return ""
    if load <= LOAD_PER_CPU_MAX * cpus:
        return ""
    return f"the load average of the last minute is {load:g} (limit: {LOAD_PER_CPU_MAX * cpus:g})"
