"""Library that makes fsync block on demand, for fault tests. Shipped as C source and compiled when needed."""

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


def build_library(cache: Path, *, compiler: str = "cc") -> Path:
    """Compile the library into `cache` and return its path. Reuses a library compiled from the same source."""
    library = cache / f"disk_stall-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if library.exists():
        return library
    if shutil.which(compiler) is None:
        raise Refused(f"stalling a disk needs a C compiler, but `{compiler}` is not on PATH: install gcc or clang")
    cache.mkdir(parents=True, exist_ok=True)
    # Compile to a temporary name and rename, so that no process loads an incomplete library.
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        compiled = Path(scratch) / library.name
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(compiled), str(_SOURCE)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_WAIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Refused(f"`{compiler}` cannot compile {_SOURCE.name}: {error}") from error
        if done.returncode != 0:
            first_line = (done.stderr.strip().splitlines() or ["no error message"])[0]
            raise Refused(f"`{compiler}` cannot compile {_SOURCE.name}: {first_line}")
        compiled.replace(library)
    return library


def preload_environment(library: Path, *, directory: Path, stall_file: Path) -> dict[str, str]:
    """Return the environment for a process in `directory` whose fsync blocks while `stall_file` exists."""
    # Use a path relative to the working directory: the loader splits LD_PRELOAD at spaces and colons.
    name = os.path.relpath(library, directory)
    if any(character in name for character in " :\t\n"):
        raise Refused(f"cannot preload {library}: its path must not contain spaces or colons")
    inherited = os.environ.get("LD_PRELOAD", "")
    # The loader searches the system's directories for a name without a slash.
    return {"LD_PRELOAD": f"./{name}:{inherited}" if inherited else f"./{name}", STALL_VARIABLE: str(stall_file)}
