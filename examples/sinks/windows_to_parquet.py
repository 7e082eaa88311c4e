"""Streaming job: count numbers per window of ten seconds, and write each window exactly once to Parquet.

    holdfast submit examples/sinks/windows_to_parquet.py -- --output /data/windows
    spark-submit examples/sinks/windows_to_parquet.py --output /data/windows

Read the directory with `spark.read.parquet`. The job refuses the output of another job; `--adopt OWNER` continues it, where
OWNER is the name in the error message.
"""

from pyspark.sql.functions import count, window

from holdfast.job import context
from holdfast.sinks import parquet

ctx = context()
numbers = ctx.spark.readStream.format("rate").option("rowsPerSecond", getattr(ctx.args, "rows_per_second", "10")).load()
windows = numbers.withWatermark("timestamp", "5 seconds").groupBy(window("timestamp", "10 seconds")).agg(count("*").alias("n"))

query = (
    windows.select("window.start", "n")
    .writeStream.foreachBatch(parquet(ctx.args.output, adopt=getattr(ctx.args, "adopt", None)))
    .option("checkpointLocation", ctx.checkpoint)
    .start()
)
ctx.run(query)
