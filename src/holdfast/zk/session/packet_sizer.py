"""Sizes of batched reads."""

from collections.abc import Sequence

from holdfast.zk.session.reader import Read

READS_FIRST = 16
READS_MAX = 128
"""Reads per packet. A znode may hold a megabyte, and a server builds the whole reply in memory."""
REQUEST_BYTES_MAX = 250_000
"""ZooKeeper drops the connection of a client that sends more than 1 MiB."""
REPLY_BYTES_TARGET = 250_000
"""Desired upper limit of a reply. Its size can only be estimated from earlier replies."""


class PacketSizer:
    """Number of reads per packet: few at first, then twice as many each time while the replies are small."""

    def __init__(self) -> None:
        self._count = READS_FIRST

    def next_packet(self, reads: Sequence[Read]) -> Sequence[Read]:
        """Return the first reads that fit into one packet: at least one."""
        size = 0
        for index, read in enumerate(reads[: self._count]):
            size += len(read.path.encode()) + 16
            if index and size > REQUEST_BYTES_MAX:
                return reads[:index]
        return reads[: self._count]

    def record_reply(self, reads: int, reply_bytes: int) -> None:
        fitting = REPLY_BYTES_TARGET * reads // max(reply_bytes, 1)
        grown = self._count * 2 if reads >= self._count else self._count
        self._count = max(1, min(fitting, grown, READS_MAX))

    def record_lost_reply(self) -> None:
        """Shrink the packets: the reply may have been too large."""
        self._count = max(1, min(self._count // 2, READS_FIRST))
