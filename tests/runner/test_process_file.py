"""Process file with damaged content: it names nothing that could be killed, and it must not stop the agent."""

import json
from pathlib import Path

import pytest

from holdfast.clock import boot_id
from holdfast.runner import process_file

NEVER_ALIVE = [999_999, 1]
"""Pid and start time that no process of a test machine has."""


@pytest.mark.parametrize(
    "damage",
    [
        {"cgroup": ["/sys/fs/\0", 1]},
        {"cgroup": ["/\ud800", 1]},
        {"cgroup": ["/" + "x" * 5000, 1]},
        {"cgroup": ["relative", 1]},
        {"cgroup": ["/"]},
        {"cgroup": None},
        {"watchdog": [10**30, 1]},
        {"watchdog": [0, 1]},
        {"watchdog": [-1, 1]},
        {"init": [0, 1], "namespace": 1},
        {"init": NEVER_ALIVE, "namespace": None},
    ],
    ids=lambda damage: str(damage)[:40],
)
def test_damaged_file_names_nothing_to_kill(tmp_path: Path, damage: dict[str, object]) -> None:
    path = tmp_path / "processes.json"
    path.write_text(json.dumps({"boot": boot_id(), "watchdog": NEVER_ALIVE, **damage}))
    assert process_file.kill_processes(path, timeout_s=0)
