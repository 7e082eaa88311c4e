"""Commands as a user gives them, about a cluster that was laid out by hand."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from typing import Any

from tests.harness.cluster.command import HOLDFAST, refusal
from tests.harness.prepared_cluster import LaidOut

__all__ = ["answer", "asked", "refusal", "run", "started", "told"]


@contextlib.contextmanager
def started(cluster: LaidOut, command: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Under way; killed at the end, if it has not ended by itself."""
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


def told(process: "subprocess.Popen[str]", sentence: str) -> str:
    """The first line on stderr that has it. Fails if the command ends before it says that."""
    assert process.stderr is not None
    for line in process.stderr:
        if sentence in line:
            return line
    raise AssertionError(f"it ended, with {process.wait()}, and never said '{sentence}'")


def run(cluster: LaidOut, command: str, *arguments: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    with started(cluster, command, *arguments) as process:
        stdout, stderr = process.communicate(timeout=timeout_s)
    assert "Traceback" not in stderr, stderr
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def answer(cluster: LaidOut, command: str, *arguments: str) -> str:
    """What it says, after checking that it was done."""
    done = run(cluster, command, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(cluster: LaidOut, command: str, *arguments: str) -> Any:
    """The same, as JSON."""
    return json.loads(answer(cluster, command, *arguments, "--json"))
