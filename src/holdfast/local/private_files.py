"""Modes of the files of a local cluster: only the user who runs the cluster can read them."""

import os
import secrets
import stat
from pathlib import Path

from holdfast.atomic_file import write_atomically
from holdfast.errors import Refused
from holdfast.local.directory_layout import DirectoryLayout
from holdfast.zk.session.connection_settings import DigestCredentials, read_auth_file

USER = "holdfast"
PASSWORD_BYTES = 32


def load_or_create_credentials(layout: DirectoryLayout) -> DigestCredentials:
    """Return the ZooKeeper user of the cluster, and create it on the first start. Raises Refused."""
    if not layout.auth_file.exists():
        line = f"{USER}:{secrets.token_urlsafe(PASSWORD_BYTES)}\n"
        try:
            write_atomically(layout.auth_file, line.encode(), mode=0o600)
        except OSError as error:
            raise Refused(f"cannot write {layout.auth_file}: {error.strerror}") from error
    return read_auth_file(layout.auth_file)


def create_private_directory(layout: DirectoryLayout) -> None:
    """Create the directory of the cluster, and close it and its content for other users. Raises OSError.

    A directory that also holds other files keeps its mode: it may be a project or a home directory.
    """
    layout.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    own = {path.name for path in layout.content}
    if not any(name not in own for name in os.listdir(layout.directory)):
        _restrict(layout.directory)
    for path in layout.content:
        _restrict(path)


def _restrict(path: Path) -> None:
    """Remove the access of other users. Leave directories alone that are shared on purpose, and files of other users."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    shared = stat.S_ISLNK(found.st_mode) or found.st_mode & (stat.S_ISVTX | stat.S_ISGID)
    if found.st_uid == os.geteuid() and found.st_mode & 0o077 and not shared:
        path.chmod(stat.S_IMODE(found.st_mode) & ~0o077)
