"""Write each event once, although its sender repeats events for up to an hour."""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()

spark = SparkSession.builder.appName("drop duplicates").getOrCreate()
events = spark.readStream.option("maxFilesPerTrigger", 1).schema("id long, time long").json(args.input)
timed = events.withColumn("at", F.timestamp_seconds("time")).withWatermark("at", "1 hour")
unique = timed.dropDuplicates(["id", "at"]).select("id", "time", F.lit(VERSION).alias("version"))
unique.writeStream.outputMode("append").format("json").option("path", args.output).start().awaitTermination()
