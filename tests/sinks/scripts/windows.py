"""Count words in windows, with state in RocksDB, into the given sink. With `--final` the query ends after all input."""

import sys

from pyspark.sql.functions import count, window

from holdfast.job import context
from tests.sinks.sink_kinds import make_sink

ctx = context()
ctx.spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
events = ctx.spark.readStream.schema("time timestamp, word string").option("maxFilesPerTrigger", 1).json(ctx.args.input)
counts = events.withWatermark("time", "1 second").groupBy(window("time", "10 seconds"), "word").agg(count("*").alias("n"))
writer = (
    counts.select("window.start", "word", "n")
    .writeStream.foreachBatch(make_sink(ctx.args.kind, ctx.args.output))
    .option("checkpointLocation", ctx.checkpoint)
)
if "final" in ctx.args:
    writer = writer.trigger(availableNow=True)
sys.stdout.write("SPARK IS UP\n")
ctx.run(writer.start())
