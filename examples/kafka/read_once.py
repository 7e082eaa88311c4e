"""Streaming job: read the topic that `orders_to_kafka.py` writes, and drop repeated records by their source header.

    holdfast submit examples/kafka/read_once.py -- --servers broker:9092 --topic orders-clean --output /data/orders

The query keeps the source of every record in a state store on disk (RocksDB), about 100 bytes per record, without a limit. To
limit the state to one day, use `withWatermark("timestamp", "1 day")` and `dropDuplicatesWithinWatermark`; a record that is
repeated later than that is then not detected.
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
source = F.expr("filter(headers, header -> header.key = 'holdfast-source')[0].value")
orders = records.select(F.col("value").cast("string"), source.cast("string").alias("source")).where("source IS NOT NULL")
query = (
    orders.dropDuplicates(["source"])
    .writeStream.foreachBatch(parquet(ctx.args.output))
    .option("checkpointLocation", ctx.checkpoint)
    .trigger(processingTime="1 second")
    .start()
)
ctx.run(query)
