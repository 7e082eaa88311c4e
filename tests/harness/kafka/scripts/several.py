"""`several.py SERVERS FIRST SECOND TEXTS CHECKPOINT`: run a query with several sources and print its Kafka sources."""

import json
import sys

from pyspark.sql import DataFrame, SparkSession

from holdfast.driver.kafka.sources import list_kafka_sources

servers, first, second, texts, checkpoint = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()


def read_topic(name: str) -> DataFrame:
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", name)
    return source.option("startingOffsets", "earliest").load().selectExpr("cast(value as string)")


one = read_topic(first)
union = one.union(spark.readStream.text(texts)).union(read_topic(second)).union(one)
writer = union.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
sys.stdout.write(f"SOURCES {json.dumps(list_kafka_sources(writer))}\n")
writer.start().awaitTermination()
