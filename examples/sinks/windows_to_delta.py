"""Streaming job: count numbers per window of ten seconds, and write each window exactly once to a Delta table.

    holdfast submit examples/sinks/windows_to_delta.py --conf spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0 \\
        --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension \\
        --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog -- --output /data/windows

Delta Lake supports certain Spark versions only; see `docs/sinks.md`. The job refuses the output of another job;
`--adopt OWNER` continues it, where OWNER is the name in the error message.
"""

from pyspark.sql.functions import count, window

from holdfast.job import context
from holdfast.sinks import delta

ctx = context()
numbers = ctx.spark.readStream.format("rate").option("rowsPerSecond", getattr(ctx.args, "rows_per_second", "10")).load()
windows = numbers.withWatermark("timestamp", "5 seconds").groupBy(window("timestamp", "10 seconds")).agg(count("*").alias("n"))

query = (
    windows.select("window.start", "n")
    .writeStream.foreachBatch(delta(ctx.args.output, adopt=getattr(ctx.args, "adopt", None)))
    .option("checkpointLocation", ctx.checkpoint)
    .start()
)
ctx.run(query)
