"""Count the words of a Kafka topic, and write the counts that each batch changes."""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--servers", required=True)
parser.add_argument("--topic", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()


def write(counts: DataFrame, batch: int) -> None:
    counts.withColumn("version", F.lit(VERSION)).write.mode("overwrite").json(f"{args.output}/batch={batch}")


spark = SparkSession.builder.appName("Kafka word count").getOrCreate()
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", args.servers)
    .option("subscribe", args.topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 5)
    .load()
)
words = records.select(F.explode(F.split(F.col("value").cast("string"), " ")).alias("word"))
words.groupBy("word").count().writeStream.outputMode("update").foreachBatch(write).start().awaitTermination()
