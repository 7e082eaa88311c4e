"""Run all benchmarks, or the named ones: `python -m bench [NAME…]`."""

import os
import platform
import signal
import sys
from collections.abc import Callable

from bench import (
    explain_templates,
    failover,
    jobs,
    offset_check,
    offset_check_overhead,
    outage,
    savepoint,
    scale,
    start,
    throughput,
    verification,
)

BENCHMARKS: dict[str, Callable[[], object]] = {
    "failover": failover.main,
    "jobs": jobs.main,
    "scale": scale.main,
    "start": start.main,
    "throughput": throughput.main,
    "outage": outage.main,
    "verification": verification.main,
    "savepoint": savepoint.main,
    "offset_check": offset_check.main,
    "offset_check_overhead": offset_check_overhead.main,
    "explain_templates": explain_templates.main,
}


def _end_like_interrupt(*_: object) -> None:
    """Handle SIGTERM: end like after Ctrl-C, so that the clusters of a benchmark are stopped."""
    raise SystemExit(143)


def main() -> int:
    signal.signal(signal.SIGTERM, _end_like_interrupt)
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"unknown benchmark '{unknown[0]}'; available benchmarks: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}, {platform.system()}")
    for name in names:
        print(f"\n{name}")
        BENCHMARKS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
