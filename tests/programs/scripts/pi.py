"""Estimate pi: throw points at a square, and count those inside the circle."""

import argparse
import random
from operator import add

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--slices", type=int, required=True)
parser.add_argument("--points", type=int, required=True, help="points of each slice")
parser.add_argument("--output", required=True)
args = parser.parse_args()


def count_inside(seed: int) -> int:
    """Return how many points of a slice are inside the circle. The seed makes a repeated task return the same."""
    draw = random.Random(seed).random
    return sum(draw() ** 2 + draw() ** 2 <= 1 for _ in range(args.points))


spark = SparkSession.builder.appName("pi").getOrCreate()
inside = spark.sparkContext.parallelize(range(args.slices), args.slices).map(count_inside).reduce(add)
pi = 4 * inside / (args.slices * args.points)
result = spark.createDataFrame([(inside, pi)], "inside long, pi double").withColumn("version", F.lit(VERSION))
result.write.mode("overwrite").json(args.output)
