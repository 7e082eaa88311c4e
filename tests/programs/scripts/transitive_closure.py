"""Find all pairs of nodes of a directed graph between which a path exists: join paths with edges until nothing is added."""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()

spark = SparkSession.builder.appName("transitive closure").getOrCreate()
rows = spark.read.schema("source long, target long").json(args.input).rdd
edges = rows.map(lambda row: (row["target"], row["source"])).cache()
paths = rows.map(lambda row: (row["source"], row["target"])).distinct().cache()
before, count = 0, paths.count()
while count != before:
    before = count
    longer = paths.join(edges).map(lambda entry: (entry[1][1], entry[1][0]))
    paths = paths.union(longer).distinct().coalesce(2).cache()
    count = paths.count()
result = spark.createDataFrame(paths, "source long, target long").withColumn("version", F.lit(VERSION))
result.write.mode("overwrite").json(args.output)
