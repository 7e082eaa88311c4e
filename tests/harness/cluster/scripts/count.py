"""Count and sum numbered lines with RocksDB state, and write the totals after each batch."""

import json

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.job import context

VERSION = 1

ctx = context()


def write(batch: DataFrame, number: int) -> None:
    totals = [row.asDict() for row in batch.collect()]
    record = {
        "job": ctx.job,
        "attempt": ctx.attempt,
        "version": VERSION,
        "batch": number,
        "rows": sum(total["rows"] for total in totals),
        "sum": sum(total["sum"] for total in totals),
    }
    with open(ctx.args.output, "a") as file:
        file.write(json.dumps(record) + "\n")


lines = ctx.spark.readStream.option("maxFilesPerTrigger", 20).text(ctx.args.input)
numbers = lines.select(F.expr("cast(substring(value, 5) as long)").alias("n"))
totals = numbers.groupBy(F.col("n") % 7).agg(F.count("*").alias("rows"), F.sum("n").alias("sum"))
ctx.run(totals.writeStream.outputMode("complete").foreachBatch(write).option("checkpointLocation", ctx.checkpoint).start())
