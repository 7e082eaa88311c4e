"""Completion: commands, options and jobs; fast, and silent on any error."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.client.connection.session import CONNECT_S
from tests.harness.cluster.command import holdfast
from tests.harness.prepared_cluster import PreparedCluster

TRIES = 5


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Command with the name `holdfast`, by which the shell finds its completion."""
    file = tmp_path / "holdfast"
    file.write_text(f"#!{sys.executable}\nfrom holdfast.cli.main import main\nmain()\n")
    file.chmod(0o755)
    return file


def complete_line(program: Path, line: str, **environment: str) -> list[str]:
    """Return the completions that bash offers for the last word."""
    words = line.split(" ")
    variables = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), **environment}
    answer = subprocess.run(
        [str(program)], env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.stderr == ""
    return [offer.partition(",")[2] for offer in answer.stdout.split()]


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed_for_each_shell(shell: str) -> None:
    answer = holdfast("completion", shell)
    assert answer.returncode == 0
    assert "_HOLDFAST_COMPLETE" in answer.stdout
    assert holdfast("completion", "csh").returncode == 2


@pytest.mark.slow
def test_commands_and_options_are_completed(program: Path) -> None:
    assert complete_line(program, "holdfast su") == ["submit"]
    assert set(complete_line(program, "holdfast re")) == {"resume", "restart"}
    assert complete_line(program, "holdfast quarantine re") == ["release"]
    assert "--tail" in complete_line(program, "holdfast logs --ta")


@pytest.mark.real
def test_jobs_are_completed_by_name(program: Path, cluster: PreparedCluster) -> None:
    for name in ("words", "wares", "clicks"):
        cluster.submit(f"j-{name}", name=name)
    printed_text = f"--connect {cluster.connect}"
    assert complete_line(program, f"holdfast show {printed_text} w") == ["wares", "words"]
    assert complete_line(program, "holdfast stop ", HOLDFAST_CONNECT=cluster.connect) == ["clicks", "wares", "words"]
    assert complete_line(program, f"holdfast quarantine show {printed_text} c") == ["clicks"]


@pytest.mark.slow
def test_unreachable_cluster_completes_nothing_silently(program: Path, tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        took_s: list[float] = []
        while not took_s or took_s[-1] > CONNECT_S:  # a busy machine spoils some of the tries; who waits for the cluster, all
            assert len(took_s) < TRIES, took_s
            began = time.monotonic()
            assert complete_line(program, "holdfast show w", HOLDFAST_CONNECT=f"127.0.0.1:{silent.getsockname()[1]}") == []
            took_s.append(time.monotonic() - began)
    for environment in ({"HOLDFAST_CONNECT": "not an address"}, {"HOLDFAST_DIR": str(tmp_path / "none")}):
        assert complete_line(program, "holdfast show w", **environment) == []
