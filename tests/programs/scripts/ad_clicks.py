"""Join ad impressions with their clicks. An impression without a click within ten minutes is written without one."""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--impressions", required=True)
parser.add_argument("--clicks", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()

spark = SparkSession.builder.appName("ad clicks").getOrCreate()
files = spark.readStream.option("maxFilesPerTrigger", 1).schema("ad long, time long")
impressions = files.json(args.impressions).select("ad", F.timestamp_seconds("time").alias("shown_at"))
clicks = files.json(args.clicks).select(F.col("ad").alias("clicked_ad"), F.timestamp_seconds("time").alias("clicked_at"))
joined = impressions.withWatermark("shown_at", "5 minutes").join(
    clicks.withWatermark("clicked_at", "5 minutes"),
    F.expr("clicked_ad = ad AND clicked_at >= shown_at AND clicked_at <= shown_at + interval 10 minutes"),
    "leftOuter",
)
result = joined.select(
    "ad",
    F.unix_seconds("shown_at").alias("shown"),
    F.unix_seconds("clicked_at").alias("clicked"),
    F.lit(VERSION).alias("version"),
)
result.writeStream.outputMode("append").format("json").option("path", args.output).start().awaitTermination()
