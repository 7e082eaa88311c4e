"""Request to stop this job: a control file or SIGTERM sets it, and nothing clears it."""

import functools

from holdfast.driver_protocol.control_files import is_stop_requested
from holdfast.driver_protocol.environment import DriverEnvironment


class StopRequest:
    """State of the stop request. The control file `stop` or `request()` sets it; nothing clears it."""

    def __init__(self, control: str) -> None:
        self._control_directory = control
        self._requested = False
        self.urgent = False
        """True if queries must stop at once, also within a batch, because the process is about to be killed."""
        self.sent_to_query = False
        """True once at least one query has received the request."""
        self.interrupted_batch = False
        """True once a query was stopped within a batch, which then runs again."""
        self.seen_by_script = False
        """True once the script has read `Context.stopping` after the request."""

    @property
    def requested(self) -> bool:
        if not self._requested:
            self._requested = is_stop_requested(self._control_directory)
        return self._requested

    def request(self) -> None:
        self._requested = True


@functools.cache
def process_stop_request() -> StopRequest:
    """Return the stop request of this process, which the driver and the script share."""
    return StopRequest(DriverEnvironment.from_variables().control_directory)
