"""Count words in windows into Parquet or PostgreSQL, as a job of a cluster."""

from pyspark.sql.functions import count, window

from holdfast.job import context
from holdfast.sinks import parquet, postgres

ctx = context()
events = ctx.spark.readStream.schema("time timestamp, word string").option("maxFilesPerTrigger", 1).json(ctx.args.input)
counts = events.withWatermark("time", "1 second").groupBy(window("time", "10 seconds"), "word").agg(count("*").alias("n"))
sink = parquet(ctx.args.output) if ctx.args.kind == "parquet" else postgres("windows", dsn=ctx.args.output)
query = counts.select("window.start", "word", "n").writeStream.foreachBatch(sink).option("checkpointLocation", ctx.checkpoint)
ctx.run(query.start())
