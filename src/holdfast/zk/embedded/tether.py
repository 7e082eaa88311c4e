"""`python -I -S tether.py PARENT_PID SIGNAL -- COMMAND…`: become COMMAND, which gets SIGNAL when its parent ends.

Stands alone: imports nothing of Holdfast. It runs between fork and exec, as a program of its own, because Python code
in that place (`preexec_fn`) can deadlock when the parent has threads. The pid stays the same all the way.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
EXIT_TOO_LATE = 75
EXIT_NOT_FOUND = 127


def main(parent_pid: int, number: int, command: list[str]) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        return f"cannot tie {command[0]} to its parent: {os.strerror(ctypes.get_errno())}"
    # A parent that ended before the line above sends no signal any more, but this process has another parent by now.
    if os.getppid() != parent_pid:
        sys.exit(EXIT_TOO_LATE)
    # Python ignores these at its start, and what is ignored stays ignored after exec.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
        sys.exit(EXIT_NOT_FOUND)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:]))
