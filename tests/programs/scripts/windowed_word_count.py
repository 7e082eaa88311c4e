"""Count words within sliding windows of event time, and write each window once it can no longer change."""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()

spark = SparkSession.builder.appName("windowed word count").getOrCreate()
events = spark.readStream.option("maxFilesPerTrigger", 1).schema("time long, words string").json(args.input)
words = events.select(F.timestamp_seconds("time").alias("at"), F.explode(F.split("words", " ")).alias("word"))
counts = words.withWatermark("at", "10 minutes").groupBy(F.window("at", "10 minutes", "5 minutes"), "word").count()
result = counts.select(
    F.unix_seconds("window.start").alias("start"),
    F.unix_seconds("window.end").alias("end"),
    "word",
    "count",
    F.lit(VERSION).alias("version"),
)
result.writeStream.outputMode("append").format("json").option("path", args.output).start().awaitTermination()
