"""Run `holdfast` as another user. Needs root.

Often only root can read the interpreter and this checkout, for example below `/root`. So imports run as root, and everything
else as the other user.
"""

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

OTHER_USER = 65534

_RUN_AS_OTHER_USER = """
import builtins, importlib, os, sys

def run_as_root(function):
    def call(*arguments, **options):
        user = os.geteuid()
        os.seteuid(0)
        try:
            return function(*arguments, **options)
        finally:
            os.seteuid(user)
    return call

builtins.__import__ = run_as_root(builtins.__import__)
importlib.import_module = run_as_root(importlib.import_module)
user = int(sys.argv[1])
os.setresuid(user, user, 0)
from holdfast.cli.main import main
sys.argv = ["holdfast", *sys.argv[2:]]
main()
"""


def holdfast_as_other_user(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _RUN_AS_OTHER_USER, str(OTHER_USER), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@contextlib.contextmanager
def readable_directory() -> Iterator[Path]:
    """Create a directory that other users can read, unlike pytest's directories."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory
