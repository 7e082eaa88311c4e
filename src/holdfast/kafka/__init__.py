"""The offset guard: is what a checkpoint says of a Kafka source still true of the brokers' logs?

Owns: reading offsets out of a checkpoint (`saved`), asking brokers (`broker`, the only module that knows confluent_kafka), what
is remembered from one look to the next (`memory`), and judging all three (`guard`, pure). Never does: move an offset, commit
one, or guess: what nobody can know is said.
"""

from holdfast.kafka.check.broker_snapshot import Sighted
from holdfast.kafka.check.checkpoint_offsets import Partition, Position, positions
from holdfast.kafka.check.client_options import Client, client_of, refusals
from holdfast.kafka.check.findings_table import table
from holdfast.kafka.check.last_known import Memory, remember
from holdfast.kafka.check.offset_check import judge, verdict
from holdfast.kafka.check.offset_finding import Finding, Kind, Weight

__all__ = [
    "Client",
    "Finding",
    "Kind",
    "Memory",
    "Partition",
    "Position",
    "Sighted",
    "Weight",
    "client_of",
    "judge",
    "positions",
    "refusals",
    "remember",
    "table",
    "verdict",
]
