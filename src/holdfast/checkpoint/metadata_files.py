"""Names of the metadata files that Holdfast keeps in a job's checkpoint. They outlive an attempt, unlike control files."""

FOLDER = "_holdfast"
"""Folder in the root of the checkpoint. Holdfast writes no other file of a checkpoint, except to copy or repair it."""
KNOWN_QUERIES_FILE = "queries.json"
"""Queries of the job and their last known batch. Writer and reader: runner. Format: `known_queries.KnownQueries`.

Not the control file of the same name (`driver_protocol.control_files.STARTED_QUERIES_FILE`)."""
KAFKA_LAST_KNOWN_FILE = "kafka.json"
"""Last known state of the topics. Writer and reader: Kafka monitor. Format: `kafka.check.last_known.JobLastKnown`.

Not the control file of the same name (`driver_protocol.control_files.KAFKA_STATUS_FILE`)."""
KAFKA_PARK_FINDINGS_FILE = "kafka-lost.json"
"""Findings that parked the job. Writer: Kafka monitor. Reader: client. Format: `kafka.check.operator_choice.ParkFindings`."""
KAFKA_CHOICE_FILE = "kafka-choice.json"
"""Offsets that an operator chose. Writer: client. Reader: Kafka monitor. Format: `kafka.check.operator_choice.OffsetChoice`."""
