"""How many numbers each window of ten seconds has, into a directory of Parquet files: every window once, whatever happens.

    holdfast submit examples/sinks/windows_to_parquet.py -- --output /data/windows
    spark-submit examples/sinks/windows_to_parquet.py --output /data/windows

Read the directory by `spark.read.parquet`. An output that is another job's is refused; `--adopt OWNER` continues it.
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
