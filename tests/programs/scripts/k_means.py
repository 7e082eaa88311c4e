"""Find the centers of clusters with k-means of MLlib, and the number of points of each cluster."""

import argparse

from pyspark.ml.clustering import KMeans
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

VERSION = 1

parser = argparse.ArgumentParser()
parser.add_argument("--input", required=True)
parser.add_argument("--clusters", type=int, required=True)
parser.add_argument("--output", required=True)
args = parser.parse_args()

spark = SparkSession.builder.appName("k-means").getOrCreate()
points = spark.read.schema("x double, y double").json(args.input)
features = VectorAssembler(inputCols=["x", "y"], outputCol="features").transform(points)
model = KMeans(k=args.clusters, seed=1, maxIter=30).fit(features)
sizes = {row["prediction"]: row["count"] for row in model.transform(features).groupBy("prediction").count().collect()}
rows = [(float(x), float(y), sizes[number]) for number, (x, y) in enumerate(model.clusterCenters())]
result = spark.createDataFrame(rows, "x double, y double, size long").withColumn("version", F.lit(VERSION))
result.write.mode("overwrite").json(args.output)
