"""Copy the lines of a directory's files to another directory, and record which driver ran when.

The driver holds the lock --lock FILE while it runs. A driver that finds it locked writes to FILE.overlaps. FILE.starts has a
line for each attempt. With --journal FILE, Python processes the batches slowly, and FILE records their starts and ends.
"""

import fcntl
import json
import os
import time

from pyspark.sql import DataFrame

from holdfast.job import context

ctx = context()


def note(file: str, **fields: object) -> None:
    """Append one line with a single write, so that lines of two processes never mix."""
    line = {"attempt": ctx.attempt, "pid": os.getpid(), "boot": time.clock_gettime(time.CLOCK_BOOTTIME), **fields}
    with open(file, "a") as stream:
        stream.write(json.dumps(line) + "\n")


lock = open(ctx.args.lock, "a+")  # noqa: SIM115 -- open until the process ends
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
