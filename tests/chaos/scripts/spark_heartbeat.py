"""Spark driver: a streaming query, and a thread that appends a heartbeat to a file every 50 ms."""

import json
import os
import sys
import threading
import time

from pyspark.sql import DataFrame

from holdfast.job import context

INTERVAL_S = 0.05

ctx = context()


def write_heartbeats() -> None:
    identity = {"job": ctx.job, "attempt": ctx.attempt, "nonce": os.environ["HOLDFAST_NONCE"], "pid": os.getpid()}
    file = os.open(os.path.join(sys.argv[1], f"{ctx.job}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    while True:
        line = {**identity, "at": round(time.clock_gettime(time.CLOCK_BOOTTIME), 4)}
        os.write(file, (json.dumps(line) + "\n").encode())
        time.sleep(INTERVAL_S)


def write(batch: DataFrame, number: int) -> None:
    batch.count()


rows = ctx.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
query = rows.writeStream.foreachBatch(write).option("checkpointLocation", ctx.checkpoint)
started = query.trigger(processingTime="1 second").start()
threading.Thread(target=write_heartbeats, daemon=True).start()
ctx.run(started)
