"""Failsafe promises during an outage of ZooKeeper: `python -m bench.outage [--attempts 100,1000] [--seconds 600]`.

Three promise services (the agent's real HTTP server, journal and exchange) keep the promises for many attempts alive. The
attempts are spread over the three nodes. Another process plays their runners. Each service is killed and started again once, in
turn. The benchmark reports attempts whose promises ran out, the CPU time of each service, and the size of its journal.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.zk.embedded.ports import Ports
from tests.harness.promise_node import TIMING, PromiseNode, start_promise_nodes
from tests.harness.runner_stubs import StubResult
from tests.harness.waiting import wait_until

NODES = 3
TIMEOUT_S = 15.0
"""Session timeout, as in the default configuration."""
RESTART_TIMEOUT_S = 120.0
ATTEMPTS = (100, 1000)
SECONDS = 600.0
SHORT_SECONDS = 60.0
"""Duration of each outage in `python -m bench`."""


@dataclass(frozen=True, slots=True)
class OutageResult:
    attempts: int
    seconds: float
    runners: StubResult
    cpu_percent: tuple[float, ...]
    """CPU time of each service, in percent of the duration. Includes the start of the second process."""
    journal_bytes: tuple[int, ...]
    restart_s_max: float
    """Longest time from the death of a service until the next process accepted connections."""


class CpuMeter:
    """CPU time of one service, over all its processes, from the moment of construction."""

    def __init__(self, node: PromiseNode) -> None:
        self._node = node
        self._ended_s = -self._read_s()

    def _read_s(self) -> float:
        assert self._node.process is not None
        fields = Path(f"/proc/{self._node.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def restart(self) -> float:
        """Kill the process with SIGKILL and start another one. Return the seconds until it accepts connections."""
        self._ended_s += self._read_s()
        self._node.kill()
        began = time.monotonic()
        self._node.start()
        wait_until(self._node.is_listening, RESTART_TIMEOUT_S, f"{self._node.node} listens again")
        return time.monotonic() - began

    def total_s(self) -> float:
        return self._ended_s + self._read_s()


def measure(attempts: int, seconds: float, directory: Path) -> OutageResult:
    ports = [Ports.pick().client for _ in range(NODES)]
    with start_promise_nodes(directory, ports, attempts=attempts, nodes_with_attempts=NODES, timeout_s=TIMEOUT_S) as nodes:
        command = [sys.executable, "-m", "tests.harness.runner_stubs", str(directory), *(node.node for node in nodes)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runners:
            try:
                assert runners.stdout is not None
                if runners.stdout.readline() != "ready\n":
                    raise RuntimeError("the runners ended before all promises were granted")
                meters, restarts_s, began = [CpuMeter(node) for node in nodes], list[float](), time.monotonic()
                for number, meter in enumerate(meters, 1):
                    _sleep_until(began + seconds * number / (NODES + 1))
                    restarts_s.append(meter.restart())
                _sleep_until(began + seconds)
                elapsed_s = time.monotonic() - began
                cpu = tuple(meter.total_s() / elapsed_s * 100 for meter in meters)
                output, _ = runners.communicate(timeout=60)
            finally:
                runners.kill()
        journals = tuple((node.directory / "promises.journal").stat().st_size for node in nodes)
    return OutageResult(attempts, elapsed_s, StubResult(**json.loads(output)), cpu, journals, max(restarts_s))


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))


def main(attempts: Sequence[int] = ATTEMPTS, seconds: float = SHORT_SECONDS) -> bool:
    """Measure and print. Return True if no promise ran out."""
    period_s = TIMEOUT_S + TIMING.margin_s
    print(
        f"  {NODES} nodes, {seconds:g} s without ZooKeeper, promises for {period_s:g} s, each agent killed and restarted once"
    )
    results = []
    for count in attempts:
        with tempfile.TemporaryDirectory(prefix="outage-") as directory:
            results.append(measure(count, seconds, Path(directory)))
        _print(results[-1])
    if len(results) > 1:
        first, last = results[0], results[-1]
        ratio = sum(last.cpu_percent) / sum(first.cpu_percent)
        linear = last.attempts / first.attempts
        print(f"  CPU of {last.attempts:,} attempts / CPU of {first.attempts:,}: {ratio:.1f} (linear: {linear:g})")
    print("  targets: 0 attempts whose promises ran out; CPU ratio linear or less")
    return not any(result.runners.lapsed for result in results)


def _print(result: OutageResult) -> None:
    cpu = ", ".join(f"{percent:.1f}" for percent in result.cpu_percent)
    runners = result.runners
    print(
        f"  {result.attempts:5,} attempts: promises of {runners.lapsed} ran out; shortest rest {runners.left_s_min:.1f} s; "
        f"CPU of the agents {cpu} %; journals up to {max(result.journal_bytes):,} bytes; "
        f"restarts took up to {result.restart_s_max:.1f} s; runners late by up to {runners.late_s_max:.1f} s",
        flush=True,
    )


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.outage", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--attempts", default=",".join(map(str, ATTEMPTS)), help="numbers of attempts, separated by commas")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="duration of each outage")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = _parse_arguments()
    succeeded = main([int(count) for count in arguments.attempts.split(",")], arguments.seconds)
    sys.exit(0 if succeeded else 1)
