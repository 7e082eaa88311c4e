"""Driver without Spark: append a heartbeat to a file every 50 ms until SIGTERM.

It imports nothing of Holdfast or PySpark, so that no JVM is started ahead of a session.
"""

import json
import os
import sys
import time

INTERVAL_S = 0.05

identity = {
    "job": os.environ["HOLDFAST_JOB"],
    "attempt": int(os.environ["HOLDFAST_ATTEMPT"]),
    "nonce": os.environ["HOLDFAST_NONCE"],
    "pid": os.getpid(),
}
# One write with O_APPEND per line: lines of two drivers never mix.
file = os.open(os.path.join(sys.argv[1], f"{identity['job']}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
while True:
    line = {**identity, "at": round(time.clock_gettime(time.CLOCK_BOOTTIME), 4)}
    os.write(file, (json.dumps(line) + "\n").encode())
    time.sleep(INTERVAL_S)
