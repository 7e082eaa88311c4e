"""What `orders_to_kafka.py` has written, each record once: a reader that knows repeated records by their mark.

    holdfast submit examples/kafka/read_once.py -- --servers broker:9092 --topic orders-clean --output /data/orders

It remembers the mark of every record that it has seen, in a state store on disk (RocksDB): about 100 bytes for each, for
ever. Where a writer is never down for longer than, say, a day, `withWatermark("timestamp", "1 day")` and
`dropDuplicatesWithinWatermark` keep only a day of them; a repeat that comes later than that is then not noticed.
"""

from pyspark.sql import functions as F

from holdfast.job import context
from holdfast.sinks import parquet

ctx = context()
ctx.spark.conf.set(
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
records = (
    ctx.spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", ctx.args.servers)
    .option("subscribe", ctx.args.topic)
    .option("startingOffsets", "earliest")
    .option("includeHeaders", "true")
    .load()
)
mark = F.expr("filter(headers, header -> header.key = 'holdfast-source')[0].value")
marked = records.select(F.col("value").cast("string"), mark.cast("string").alias("source")).where("source IS NOT NULL")
query = (
    marked.dropDuplicates(["source"])
    .writeStream.foreachBatch(parquet(ctx.args.output))
    .option("checkpointLocation", ctx.checkpoint)
    .trigger(processingTime="1 second")
    .start()
)
ctx.run(query)
