"""Write each batch to two places: its rows, and their number and sum. A repeated batch replaces what it wrote before."""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()


def write(rows: DataFrame, batch: int) -> None:
    rows.persist()
    versioned = rows.withColumn("version", F.lit(VERSION))
    versioned.write.mode("overwrite").json(f"{args.output}/rows/batch={batch}")
    totals = versioned.groupBy("version").agg(F.count("*").alias("rows"), F.sum("number").alias("sum"))
    totals.write.mode("overwrite").json(f"{args.output}/totals/batch={batch}")
    rows.unpersist()


spark = SparkSession.builder.appName("foreachBatch").getOrCreate()
numbers = spark.readStream.option("maxFilesPerTrigger", 1).schema("number long").json(args.input)
numbers.writeStream.foreachBatch(write).start().awaitTermination()
