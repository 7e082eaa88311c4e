"""`holdfast up`, `down` and commands on a local cluster that is not running. No server is started."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.local.process_identity import ProcessIdentity
from tests.harness.cluster.command import error_message, holdfast
from tests.harness.cluster.other_user import holdfast_as_other_user, readable_directory


def describe_cluster(directory: Path, supervisor: ProcessIdentity) -> None:
    """Write the description of a cluster whose ZooKeeper refuses connections."""
    directory.mkdir(exist_ok=True)
    description = {
        "connect": "127.0.0.1:1",
        "cluster": "default",
        "ready": False,
        "supervisor": {"pid": supervisor.pid, "started": supervisor.started},
        "zookeepers": [{"id": "1"}],
    }
    (directory / "cluster.json").write_text(json.dumps(description))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["ls"], ["show", "j1"], ["cluster"], ["stop", "j1"], ["logs", "j1"], ["submit", __file__]], ids=" ".join
)
def test_command_on_a_stopped_cluster_says_how_to_start_it(tmp_path: Path, command: list[str]) -> None:
    describe_cluster(tmp_path, ProcessIdentity(2**22 - 1, 1))
    message = error_message(holdfast(*command, "--dir", str(tmp_path)))
    assert message == f"holdfast: the cluster in {tmp_path} is not running: start it with 'holdfast up --dir {tmp_path}'"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a command as another user")
def test_down_by_another_user_names_the_owner() -> None:
    identity = ProcessIdentity.read(os.getpid())
    assert identity is not None
    with readable_directory() as directory:
        describe_cluster(directory, identity)
        message = error_message(holdfast_as_other_user("down", "--dir", str(directory)))
    assert message == f"holdfast: the cluster in {directory} belongs to user root: only this user and root can stop it"


def test_detached_start_on_a_full_disk_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "up.log").symlink_to("/dev/full")
    message = error_message(holdfast("up", "--detach", "--dir", str(tmp_path)))
    assert message == f"holdfast: cannot write to {tmp_path / 'up.log'}: No space left on device"


def test_start_on_a_full_disk_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "up.lock").symlink_to("/dev/full")
    assert f"cannot write to {tmp_path / 'up.lock'}: " in error_message(holdfast("up", "--dir", str(tmp_path)))


@pytest.mark.slow
def test_silent_end_of_a_detached_start_is_explained_by_the_disk(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from holdfast.cli.commands.up_down import _describe_silent_end; "
        "from holdfast.local.directory_layout import DirectoryLayout; "
        "print(_describe_silent_end(DirectoryLayout(Path(sys.argv[1]))))"
    )

    def describe(file_bytes_max: int) -> str:
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max)),
        ).stdout.strip()

    assert describe(1000) == f"the cluster did not start: cannot write to {tmp_path}: File too large"
    assert describe(1_000_000) == f"the cluster did not start: see {tmp_path / 'up.log'}"
