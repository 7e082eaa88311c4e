"""Print events of jobs."""

import time

from rich.console import Console
from rich.text import Text

from holdfast.cli.render.sanitize import sanitize
from holdfast.cli.render.table import UNKNOWN
from holdfast.cli.render.terminal import padded_phase, print_hanging
from holdfast.client.jobs.listing import JobEvent
from holdfast.client.timestamps import stamp

NAME_WIDTH_MAX = 24


def print_events(screen: Console, events: list[JobEvent], *, with_names: bool) -> None:
    """Print one event per line, with its complete reason."""
    if not events:
        screen.print("no events yet")
        return
    now = time.time()
    times = [stamp(each.event.wall, now) for each in events]
    names = [sanitize(each.job.name or UNKNOWN) for each in events] if with_names else []
    time_width = max(map(len, times))
    name_width = min(max(map(len, names), default=0), NAME_WIDTH_MAX)
    for index, each in enumerate(events):
        head = Text.assemble((f"{times[index]:>{time_width}}  ", "dim"))
        if with_names:
            name = Text(names[index])
            name.truncate(name_width, overflow="ellipsis", pad=True)
            head.append_text(name).append("  ")
        head.append_text(padded_phase(each.event.phase))
        print_hanging(screen, head, sanitize(each.event.reason))
