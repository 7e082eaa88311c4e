"""Fails on purpose, in the way that its first argument names. For trying out what a cluster does about it.

holdfast submit examples/crash.py -- raise              an exception in the first line
holdfast submit examples/crash.py -- exit --code 3      an exit code
holdfast submit examples/crash.py -- memory             no memory left, in Python
holdfast submit examples/crash.py -- kill               killed from outside, as by the kernel
holdfast submit examples/crash.py -- batches --after 3  an exception after so many batches of each attempt
"""

import itertools
import os
import signal
import sys

from pyspark.sql import DataFrame

from holdfast.job import context

ctx = context()
how = ctx.args[0] if len(ctx.args) else "raise"
done = itertools.count()


def write(batch: DataFrame, batch_id: int) -> None:
    if next(done) >= int(getattr(ctx.args, "after", "3")):
        raise RuntimeError(f"batch {batch_id} fails on purpose")


if how == "raise":
    raise RuntimeError("this script fails on purpose")
if how == "exit":
    sys.exit(int(getattr(ctx.args, "code", "1")))
if how == "memory":
    bytearray(2**60)
if how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "batches":
    rows = ctx.spark.readStream.format("rate").load()
    ctx.run(rows.writeStream.option("checkpointLocation", ctx.checkpoint).foreachBatch(write).start())
raise SystemExit(f"'{how}' is no way to fail: raise, exit, memory, kill or batches")
