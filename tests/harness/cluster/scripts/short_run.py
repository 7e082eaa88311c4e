"""Append a line to a file and end. A process that finds another one running writes to FILE.overlaps instead."""

import fcntl
import os
import sys
import time

file = sys.argv[1]
lock = open(f"{file}.lock", "a")  # noqa: SIM115 -- open until the process ends
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    with open(f"{file}.overlaps", "a") as overlaps:
        overlaps.write(f"{os.getpid()}\n")
    raise
time.sleep(0.5)
with open(file, "a") as ends:
    ends.write(f"{os.environ['HOLDFAST_ATTEMPT']}\n")
