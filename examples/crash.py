"""Failing job: try out how the cluster handles each kind of failure. The first argument chooses the kind.

    holdfast submit examples/crash.py -- raise              raise an exception immediately
    holdfast submit examples/crash.py -- exit --code 3      end with an exit code
    holdfast submit examples/crash.py -- memory             run out of memory in Python
    holdfast submit examples/crash.py -- kill               die of SIGKILL, as if the kernel had killed the driver
    holdfast submit examples/crash.py -- batches --after 3  raise an exception after three batches of each attempt

`holdfast ls` shows the restarts, and `holdfast events JOB` the reason of each failure.
"""

import itertools
import os
import signal
import sys

from pyspark.sql import DataFrame

from holdfast.job import context

ctx = context()
kind = ctx.args[0] if len(ctx.args) else "raise"
batches = itertools.count()


def fail_later(batch: DataFrame, batch_id: int) -> None:
    if next(batches) >= int(getattr(ctx.args, "after", "3")):
        raise RuntimeError(f"batch {batch_id} fails on purpose")


if kind == "raise":
    raise RuntimeError("this script fails on purpose")
if kind == "exit":
    sys.exit(int(getattr(ctx.args, "code", "1")))
if kind == "memory":
    bytearray(2**60)
if kind == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if kind == "batches":
    rows = ctx.spark.readStream.format("rate").load()
    ctx.run(rows.writeStream.option("checkpointLocation", ctx.checkpoint).foreachBatch(fail_later).start())
raise SystemExit(f"unknown failure '{kind}': use raise, exit, memory, kill or batches")
