"""Copies the lines of a directory's files to another directory, and leaves proof of who ran when.

--lock FILE is held by the driver for as long as it lives; whoever finds it held says so in FILE.overlaps. FILE.starts has a
line for each attempt. With --journal FILE the batches are made by Python, slowly, and FILE has their begins and ends.
"""

import fcntl
import json
import os
import time

from pyspark.sql import DataFrame

from holdfast.job import context

ctx = context()


def note(file: str, **fields: object) -> None:
    """One write to a file that is open for appending: lines of two processes never mix."""
    line = {"attempt": ctx.attempt, "pid": os.getpid(), "boot": time.clock_gettime(time.CLOCK_BOOTTIME), **fields}
    with open(file, "a") as stream:
        stream.write(json.dumps(line) + "\n")


lock = open(ctx.args.lock, "a+")  # noqa: SIM115 -- until the process ends
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    note(f"{ctx.args.lock}.overlaps")
    raise
note(f"{ctx.args.lock}.starts")

lines = ctx.spark.readStream.option("maxFilesPerTrigger", 50).text(ctx.args.input)
writer = lines.writeStream.option("checkpointLocation", ctx.checkpoint)
if "journal" in ctx.args:

    def write(batch: DataFrame, batch_id: int) -> None:
        note(ctx.args.journal, batch=batch_id, end=False)
        time.sleep(1.5)
        note(ctx.args.journal, batch=batch_id, end=True)

    ctx.run(writer.foreachBatch(write).start())
else:
    ctx.run(writer.format("text").option("path", ctx.args.output).start())
