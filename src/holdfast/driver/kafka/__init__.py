"""Kafka support of the driver: the connector on the class path, and the offset check before a query starts."""
