"""Aggregate an endless stream of numbers with a large RocksDB state: count, sum and a kilobyte for each of many keys."""

import json
import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.job import context

VERSION = 1

ctx = context()


def write(batch: DataFrame, number: int) -> None:
    total = batch.agg(F.sum("rows").alias("rows"), F.sum("sum").alias("sum"), F.count("*").alias("keys")).collect()[0]
    record = {"job": ctx.job, "version": VERSION, "batch": number, "wall": time.time(), **total.asDict()}
    with open(ctx.args.output, "a") as file:
        file.write(json.dumps(record) + "\n")


numbers = ctx.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ctx.args.rows).load()
# Hashes are incompressible.
payload = F.concat(*(F.sha2(F.concat_ws("-", F.lit(salt), "value"), 256) for salt in range(16)))
keyed = numbers.groupBy((F.col("value") % int(ctx.args.keys)).alias("key"))
totals = keyed.agg(F.count("*").alias("rows"), F.sum("value").alias("sum"), F.max(payload).alias("payload"))
ctx.run(totals.writeStream.outputMode("complete").foreachBatch(write).option("checkpointLocation", ctx.checkpoint).start())
