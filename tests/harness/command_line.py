"""Run `holdfast` commands on a prepared cluster."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

from tests.harness.cluster.command import HOLDFAST, error_message
from tests.harness.prepared_cluster import PreparedCluster

__all__ = ["error_message", "run_command", "run_json", "run_ok", "start_command", "wait_for_stderr"]


@contextlib.contextmanager
def start_command(cluster: PreparedCluster, command: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a command, and kill it at the end if it still runs."""
    with subprocess.Popen(
        [*HOLDFAST, command, "--connect", cluster.connect, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_stderr(process: "subprocess.Popen[str]", sentence: str) -> str:
    """Return the first line on stderr that contains a text. Fail if the command ends without it."""
    assert process.stderr is not None
    for line in process.stderr:
        if sentence in line:
            return line
    raise AssertionError(f"the command ended with {process.wait()} and never printed '{sentence}'")


def run_command(
    cluster: PreparedCluster, command: str, *arguments: str, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    with start_command(cluster, command, *arguments) as process:
        stdout, stderr = process.communicate(timeout=timeout_s)
    assert "Traceback" not in stderr, stderr
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def run_ok(cluster: PreparedCluster, command: str, *arguments: str) -> str:
    """Run a command that must succeed, and return its stdout."""
    done = run_command(cluster, command, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_json(cluster: PreparedCluster, command: str, *arguments: str) -> Any:
    """Run a command with --json, and return the parsed output."""
    return json.loads(run_ok(cluster, command, *arguments, "--json"))
