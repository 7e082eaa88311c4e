"""Records from one Kafka topic into another: each at least once, and each with a mark by which a reader takes it once.

    holdfast submit examples/kafka/orders_to_kafka.py -- --servers broker:9092 --from orders --to orders-clean
    holdfast submit examples/kafka/read_once.py -- --servers broker:9092 --topic orders-clean --output /data/orders

Spark's sink for Kafka has no transactions: a batch that was cut off is written again, as a whole. No setting changes that, and
nobody can take back what is in a topic. But a record here is made from one record of the source, so where that one stood is a
name that stays the same however often it is written. It travels in the headers, with the number of the attempt:

    holdfast-source   topic, partition and offset, as "orders 3 1742"
    holdfast-attempt  who wrote it; only grows

The key stays the record's own. Whatever is done to a record must depend on that record alone: no clock, no chance, no
aggregation, for else a repeated record is not the same record, and taking it once is not enough.
"""

from pyspark.sql import functions as F

from holdfast.job import context

ctx = context()
records = (
    ctx.spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", ctx.args.servers)
    .option("subscribe", getattr(ctx.args, "from"))
    .option("startingOffsets", "earliest")
    .load()
)
source = F.concat_ws(" ", "topic", F.col("partition").cast("string"), F.col("offset").cast("string"))
clean = records.select(
    "key",
    F.upper(F.col("value").cast("string")).alias("value"),
    F.array(
        F.struct(F.lit("holdfast-source").alias("key"), source.cast("binary").alias("value")),
        F.struct(F.lit("holdfast-attempt").alias("key"), F.lit(str(ctx.attempt)).cast("binary").alias("value")),
    ).alias("headers"),
)
query = (
    clean.writeStream.format("kafka")
    .option("kafka.bootstrap.servers", ctx.args.servers)
    .option("topic", ctx.args.to)
    .option("checkpointLocation", ctx.checkpoint)
    .trigger(processingTime="1 second")
    .start()
)
ctx.run(query)
