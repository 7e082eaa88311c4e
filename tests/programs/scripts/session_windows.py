"""Count the events of each user per session. A session ends five minutes after its last event."""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()

spark = SparkSession.builder.appName("session windows").getOrCreate()
events = spark.readStream.option("maxFilesPerTrigger", 1).schema("time long, user string").json(args.input)
timed = events.withColumn("at", F.timestamp_seconds("time")).withWatermark("at", "10 minutes")
counts = timed.groupBy(F.session_window("at", "5 minutes"), "user").count()
result = counts.select(
    "user",
    F.unix_seconds("session_window.start").alias("start"),
    F.unix_seconds("session_window.end").alias("end"),
    "count",
    F.lit(VERSION).alias("version"),
)
result.writeStream.outputMode("append").format("json").option("path", args.output).start().awaitTermination()
