"""Kafka monitor: the process beside a driver with Kafka sources. It approves each query's start and checks its offsets.

It is a separate process because librdkafka and storage access do not belong in a user's program, and because a runner stays
small. The driver starts it, so it is part of the driver's process tree and dies with it. Passwords reach it through a pipe;
it never writes them down.

Owns: reading the checkpoint, querying brokers, applying an operator's choice, and the status file `control/kafka.json`.
Never does: end the driver. It sends a park message, and the driver ends itself.
"""
