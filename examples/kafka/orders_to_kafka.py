"""Streaming job: copy records from one Kafka topic to another, at least once, with a header for deduplication.

    holdfast submit examples/kafka/orders_to_kafka.py -- --servers broker:9092 --from orders --to orders-clean
    holdfast submit examples/kafka/read_once.py -- --servers broker:9092 --topic orders-clean --output /data/orders

Spark's Kafka sink has no transactions: after a crash it writes the interrupted batch again, and records in a topic cannot be
deleted individually. But each output record is made from one source record, whose position is the same in every repetition.
The job writes that position and the attempt number into the headers:

    holdfast-source   topic, partition and offset of the source record, for example "orders 3 1742"
    holdfast-attempt  number of the attempt that wrote the record; it grows with every restart

A reader such as `read_once.py` drops records with a known `holdfast-source`. This is correct only if the transformation of a
record depends on that record alone: no clock, no random values, no aggregation. The record's key is unchanged.
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
