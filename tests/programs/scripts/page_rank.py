"""Rank pages by the links between them. Each line of the input names a page and a page to which it links."""

import argparse
from collections.abc import Iterable, Iterator
from operator import add

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--iterations", type=int, required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()


def share_rank(targets: Iterable[str], rank: float) -> Iterator[tuple[str, float]]:
    """Divide the rank of a page equally between the pages to which it links."""
    pages = list(targets)
    return ((page, rank / len(pages)) for page in pages)


spark = SparkSession.builder.appName("page rank").getOrCreate()
lines = spark.read.text(args.input).rdd.map(lambda row: row[0].split())
links = lines.map(lambda pair: (pair[0], pair[1])).distinct().groupByKey().cache()
ranks = links.mapValues(lambda _: 1.0)
for _ in range(args.iterations):
    shares = links.join(ranks).flatMap(lambda entry: share_rank(*entry[1]))
    ranks = shares.reduceByKey(add).mapValues(lambda total: 0.15 + 0.85 * total)
result = spark.createDataFrame(ranks, "page string, rank double").withColumn("version", F.lit(VERSION))
result.write.mode("overwrite").json(args.output)
