"""Numbers, a fixed number of them each second, into Parquet files: every number once, whatever happens in between.

    holdfast submit examples/rate_to_parquet.py -- --output /data/numbers --rows-per-second 100
    spark-submit examples/rate_to_parquet.py --output /data/numbers

Spark's file sink keeps a log of its own beside the files, so that a batch that is repeated after a crash is written once. Read
the directory by Spark, which follows that log.
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
