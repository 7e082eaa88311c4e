"""Hadoop cluster on loopback: HDFS and YARN, with real daemons."""
