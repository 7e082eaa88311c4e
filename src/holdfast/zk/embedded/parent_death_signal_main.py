"""Execute a command that gets a signal when its parent ends.

Usage: `python -I -S parent_death_signal_main.py PARENT_PID SIGNAL -- COMMAND…`. The command keeps this process's pid.

It is a separate program because Python code between fork and exec (`preexec_fn`) can deadlock if the parent has threads.
Standard library only.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
EXIT_PARENT_ENDED = 75
EXIT_NOT_FOUND = 127


def main(parent_pid: int, number: int, command: list[str]) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        return f"cannot set the parent death signal of {command[0]}: {os.strerror(ctypes.get_errno())}"
    # If the parent ended before the call above, no signal will come, but this process has another parent now.
    if os.getppid() != parent_pid:
        sys.exit(EXIT_PARENT_ENDED)
    # Python ignores these signals, and an ignored signal stays ignored after exec.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
        sys.exit(EXIT_NOT_FOUND)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:]))
