"""Count the words of text files with RDDs."""

import argparse
from operator import add

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()

spark = SparkSession.builder.appName("batch word count").getOrCreate()
lines = spark.read.text(args.input).rdd.map(lambda row: row[0])
counts = lines.flatMap(lambda line: line.split(" ")).map(lambda word: (word, 1)).reduceByKey(add)
result = spark.createDataFrame(counts, "word string, count long").withColumn("version", F.lit(VERSION))
result.write.mode("overwrite").json(args.output)
