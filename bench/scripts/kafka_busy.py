"""CPU-bound streaming job that reads from Kafka: `kafka_busy.py SERVERS TOPIC RECORDS_PER_BATCH DIRECTORY`."""

import sys

from pyspark.sql import SparkSession

servers, topic, records, directory = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
rows = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", records).load()
hashed = rows.selectExpr("sha2(repeat(cast(value as string), 600), 512) AS hash")
query = hashed.writeStream.format("noop").option("checkpointLocation", f"{directory}/checkpoint").start()
query.awaitTermination()
