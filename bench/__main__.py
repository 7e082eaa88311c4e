"""Runs every benchmark, or those named."""

import os
import platform
import sys

from bench import explain_templates, failover, jobs, kafka_guard, kafka_overhead, savepoint, simulation, start, throughput

BENCHMARKS = {
    "simulation": simulation.main,
    "failover": failover.main,
    "jobs": jobs.main,
    "start": start.main,
    "throughput": throughput.main,
    "savepoint": savepoint.main,
    "kafka_guard": kafka_guard.main,
    "kafka_overhead": kafka_overhead.main,
    "explain_templates": explain_templates.main,
}


def main() -> int:
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"there is no benchmark '{unknown[0]}'; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}, {platform.system()}")
    for name in names:
        print(f"\n{name}")
        BENCHMARKS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
