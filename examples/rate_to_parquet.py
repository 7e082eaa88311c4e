"""Streaming job: write consecutive numbers at a fixed rate to Parquet files, each number exactly once.

    holdfast submit examples/rate_to_parquet.py -- --output /data/numbers --rows-per-second 100
    spark-submit examples/rate_to_parquet.py --output /data/numbers

Spark's file sink keeps a log (`_spark_metadata`) beside the files, so a batch that is repeated after a crash counts once. Read
the directory with Spark, which uses that log.
"""

from holdfast.job import context

ctx = context()
rate = getattr(ctx.args, "rows_per_second", "10")
numbers = ctx.spark.readStream.format("rate").option("rowsPerSecond", rate).load()

query = (
    numbers.writeStream.format("parquet")
    .option("path", ctx.args.output)
    .option("checkpointLocation", ctx.checkpoint)
    .trigger(processingTime=getattr(ctx.args, "every", "1 second"))
    .start()
)
ctx.run(query)
