"""Error of a query that must not start. The attempt ends with the exit record that the error carries."""

from holdfast.driver_protocol.exit_record import ExitRecord
from holdfast.errors import HoldfastError


class StartRefused(HoldfastError):
    """The query must not start. `end` becomes the exit record of the attempt unless the script handles this error."""

    def __init__(self, end: ExitRecord) -> None:
        super().__init__(end.reason)
        self.end = end


def find_refusal(error: BaseException) -> ExitRecord | None:
    """Return the exit record of the StartRefused among an error and its causes, or None."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        if isinstance(following, StartRefused):
            return following.end
        seen.add(id(following))
        following = following.__cause__ or following.__context__
    return None
