"""Progress in the lease: each heartbeat writes it, so it must stay small."""

from pathlib import Path

from holdfast.driver_protocol.control_files import KAFKA_STATUS_FILE, PROGRESS_FILE, write_control_file
from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, NodeId
from holdfast.model.job import Lease
from holdfast.runner.execution.control_reader import LAG_BYTES_MAX, OFFSETS_BYTES_MAX, ControlReader

FEW, MANY = ({"topic": {str(partition): 10**9 + partition for partition in range(count)}} for count in (3, 5000))


def test_offsets_and_lag_of_thousands_of_partitions_are_left_out(tmp_path: Path) -> None:
    """With 200 kB in each heartbeat, a ZooKeeper server of 128 MB ran out of memory after 210 heartbeats."""
    write_control_file(str(tmp_path), PROGRESS_FILE, {"batch_id": 7, "offsets": [MANY, FEW], "offset_queries": ["a", "b"]})
    write_control_file(str(tmp_path), KAFKA_STATUS_FILE, {"note": "", "lag": [MANY, FEW]})
    progress = ControlReader(tmp_path).progress()
    assert progress is not None and progress.batch_id == 7
    assert [len(offset) < 100 for offset in progress.offsets] == [True, True]
    assert progress.offsets[0].startswith('"omitted, because its size is ')
    assert len(progress.lag) == 1
    lease = encode(Lease(Attempt(1), NodeId("n1"), progress=progress))
    assert len(lease) < OFFSETS_BYTES_MAX + LAG_BYTES_MAX
