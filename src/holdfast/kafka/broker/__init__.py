"""Broker queries for the offset check. Only this package imports confluent_kafka.

Owns: the requests of one snapshot. Never does: join a consumer group, commit an offset, or keep state between snapshots.
"""

from holdfast.kafka.broker.snapshot_request import BEYOND_EVERY_LOG, SnapshotRequest, fetch_snapshot

__all__ = ["BEYOND_EVERY_LOG", "SnapshotRequest", "fetch_snapshot"]
