"""Kafka offset check: compares the offsets in a Spark checkpoint with the logs of the brokers.

Owns: reading offsets from a checkpoint, querying brokers (`broker`, the only package that imports confluent_kafka), the last
known state of each topic, the check itself (`check`, pure) and the process that runs it beside a driver (`monitor`).
Never does: commit an offset, join a consumer group, or guess. A finding says what cannot be known.
"""
