"""Streaming job: count numbers per window of ten seconds in a PostgreSQL table, one row per window, updated in place.

    holdfast submit examples/sinks/windows_to_postgres.py -- --table windows
    spark-submit examples/sinks/windows_to_postgres.py --table windows

The connection parameters come from the environment (PGHOST, PGUSER, PGPASSWORD, …), so no password appears in a command line
or in a log. A missing table is created.
"""

from pyspark.sql.functions import count, window

from holdfast.job import context
from holdfast.sinks import postgres

ctx = context()
numbers = ctx.spark.readStream.format("rate").option("rowsPerSecond", getattr(ctx.args, "rows_per_second", "10")).load()
windows = numbers.withWatermark("timestamp", "5 seconds").groupBy(window("timestamp", "10 seconds")).agg(count("*").alias("n"))

query = (
    windows.select("window.start", "n")
    .writeStream.outputMode("update")
    .foreachBatch(postgres(ctx.args.table, key=["start"], adopt=getattr(ctx.args, "adopt", None)))
    .option("checkpointLocation", ctx.checkpoint)
    .start()
)
ctx.run(query)
