"""The process beside a driver that has Kafka sources: it lets a query start, and watches over its offsets while it runs.

A process of its own, because librdkafka and the storage have no place in a user's program, and because a runner stays small. It
is started by the driver and belongs to its tree: whatever ends the driver ends it. Passwords reach it through a pipe, and it
writes none of them down.

Owns: reading the checkpoint, asking brokers (`holdfast.kafka`), acting on what a person chose, and the words for the runner in
`control/kafka.json`. Never does: end the driver. It tells it, and the driver ends itself.
"""
