"""The library that stalls one server's disk on demand. It is shipped as source and compiled when a test asks for it."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from holdfast.errors import Refused

STALL_VARIABLE = "HOLDFAST_DISK_STALL"
COMPILE_WAIT_S = 60
_SOURCE = Path(__file__).with_name("disk_stall.c")


def build(cache: Path, *, compiler: str = "cc") -> Path:
    """The compiled library, from `cache` if it is there already. Its name says which source it was made from."""
    library = cache / f"disk_stall-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if library.exists():
        return library
    if shutil.which(compiler) is None:
        raise Refused(f"stalling a disk needs a C compiler, and there is no `{compiler}` on PATH: install gcc or clang")
    cache.mkdir(parents=True, exist_ok=True)
    # Compiled beside its place and then renamed, so that nobody ever loads half a library.
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        fresh = Path(scratch) / library.name
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(fresh), str(_SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_WAIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused(f"`{compiler}` cannot compile {_SOURCE.name}: {error}") from error
        if done.returncode != 0:
            first_line = (done.stderr.strip().splitlines() or ["it gave no reason"])[0]
            raise Refused(f"`{compiler}` cannot compile {_SOURCE.name}: {first_line}")
        fresh.replace(library)
    return library


def preloaded(library: Path, *, directory: Path, stall_file: Path) -> dict[str, str]:
    """The environment of a process that runs in `directory` and whose disk stalls while `stall_file` exists."""
    # Named from where the process runs, because the loader takes a space or a colon in a name for the end of it.
    name = os.path.relpath(library, directory)
    if any(mark in name for mark in " :\t\n"):
        raise Refused(f"{library} cannot be preloaded because of its name: use directories without spaces and colons")
    already = os.environ.get("LD_PRELOAD", "")
    # A name without a slash would be looked up among the system's libraries.
    return {"LD_PRELOAD": f"./{name}:{already}" if already else f"./{name}", STALL_VARIABLE: str(stall_file)}
