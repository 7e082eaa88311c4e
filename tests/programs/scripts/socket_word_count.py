"""Count the words that a TCP server sends: running counts of all words, written after each batch."""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--host", required=True)
parser.add_argument("--port", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()


def write(counts: DataFrame, batch: int) -> None:
    counts.withColumn("version", F.lit(VERSION)).coalesce(1).write.mode("overwrite").json(args.output)


spark = SparkSession.builder.appName("socket word count").getOrCreate()
lines = spark.readStream.format("socket").option("host", args.host).option("port", args.port).load()
words = lines.select(F.explode(F.split("value", " ")).alias("word"))
words.groupBy("word").count().writeStream.outputMode("complete").foreachBatch(write).start().awaitTermination()
