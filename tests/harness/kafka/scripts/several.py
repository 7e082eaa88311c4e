"""`several.py SERVERS FIRST SECOND TEXTS CHECKPOINT`: a query of several sources; prints which of them are Kafka's."""

import json
import sys

from pyspark.sql import SparkSession

from holdfast.driver.kafka_sources import kafka_sources

servers, first, second, texts, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


def topic(name):
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", name)
    return source.option("startingOffsets", "earliest").load().selectExpr("cast(value as string)")


one = topic(first)
union = one.union(spark.readStream.text(texts)).union(topic(second)).union(one)
writer = union.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
sys.stdout.write(f"SOURCES {json.dumps(kafka_sources(writer))}\n")
writer.start().awaitTermination()
