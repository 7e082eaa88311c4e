"""The previous release, checked out from git and installed in an environment of its own."""

import subprocess
import sys
import sysconfig
import tarfile
import venv
from io import BytesIO
from pathlib import Path

COMMIT = "0b8b788985dfc9da9e59f14b7934e34aaa04240d"
"""The release that a cluster may still run when its nodes are upgraded. Change it with each release."""
_REPOSITORY = Path(__file__).parents[3]


def previous_release(directory: Path) -> list[str]:
    """Install the previous release below the directory and return its `holdfast` command.

    The environment has its own interpreter and its own copy of the package. It shares the third-party packages of the
    current environment: PySpark alone takes 400 MB.
    """
    environment = directory / "previous-release"
    venv.create(environment, symlinks=True, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))
    with tarfile.open(fileobj=BytesIO(_archive())) as archive:
        archive.extractall(directory / "previous-source", filter="data")
    (directory / "previous-source" / "src" / "holdfast").rename(packages / "holdfast")
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = environment / "bin" / "python"
    _check_origin(python, packages)
    return [str(python), "-m", "holdfast.cli.main"]


def _archive() -> bytes:
    done = subprocess.run(["git", "archive", COMMIT, "src/holdfast"], cwd=_REPOSITORY, capture_output=True, check=False)
    message = done.stderr.decode(errors="replace").strip()
    assert done.returncode == 0, f"the upgrade test needs commit {COMMIT} in the git history: {message}"
    return done.stdout


def _check_origin(python: Path, packages: Path) -> None:
    """Check that this interpreter imports the old package, and the modules of the current one are out of reach."""
    show = "import holdfast; print(holdfast.__file__)"
    done = subprocess.run([python, "-P", "-c", show], capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(packages), done.stdout
    assert sys.executable != str(python)
