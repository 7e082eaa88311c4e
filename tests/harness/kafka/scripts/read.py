"""`read.py SERVERS TOPIC CHECKPOINT OUTPUT`: read all records in batches of 30, then exit."""

import sys

from pyspark.sql import SparkSession

servers, topic, checkpoint, output = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
records = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 30).load()
values = records.selectExpr("cast(value as string)")
query = values.writeStream.format("text").option("path", output).option("checkpointLocation", checkpoint)
query.trigger(availableNow=True).start().awaitTermination()
