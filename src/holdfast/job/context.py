"""`context()`: the job that runs the script, as seen by the script."""

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from holdfast.driver.queries.active_queries import wait_for_queries
from holdfast.driver.stderr_log import log_line
from holdfast.driver.stop_request import process_stop_request
from holdfast.driver_protocol.environment import DriverEnvironment
from holdfast.errors import Refused
from holdfast.job.arguments import Arguments

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

CHECKPOINT_CONF = "spark.sql.streaming.checkpointLocation"


class Context:
    """Job of this process: its identity, arguments, Spark session and checkpoint.

    Functions that Spark sends to its workers may use the context, except for `spark` and `run`.
    """

    def __init__(self, environment: DriverEnvironment, args: Any) -> None:
        self.args = args
        """Arguments of the script: an `Arguments` object, or the namespace of the script's own parser."""
        self.supervised = environment.supervised
        """True if Holdfast runs this script, False under plain `spark-submit` or `python`."""
        self.job = environment.job or script_name()
        """Job id, unique in the cluster. Without Holdfast, the script's name."""
        self.name = environment.name or self.job
        """Job name, as given to `holdfast submit --name`. Without Holdfast, the script's name."""
        self.attempt = environment.attempt
        """Number of this attempt, which grows with every restart. A sink can use it as a fencing token. 0 without Holdfast."""
        self._environment = environment
        self._script = script_name()

    @functools.cached_property
    def spark(self) -> "SparkSession":
        """Spark session of this job, created on first use with the job's name as application name."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.appName(self.name).getOrCreate()

    @functools.cached_property
    def checkpoint(self) -> str:
        """Checkpoint location of this job, the same for every attempt.

        Without Holdfast: the argument `--checkpoint`, else a folder below `spark.sql.streaming.checkpointLocation`, else
        `checkpoints/SCRIPT` in the working directory.
        """
        if self._environment.checkpoint:
            return self._environment.checkpoint
        argument = getattr(self.args, "checkpoint", None)
        if isinstance(argument, str) and argument:
            return argument
        root = self.spark.conf.get(CHECKPOINT_CONF, None)
        if root:
            return f"{root.rstrip('/')}/{self._script}"
        default = os.path.join(os.getcwd(), "checkpoints", self._script)
        log_line(f"using the checkpoint {default}; choose another with --checkpoint or {CHECKPOINT_CONF}")
        return default

    @property
    def stopping(self) -> bool:
        """True once the job is asked to stop. Check it in your own loops; streaming queries stop without it.

        A script that ends after it has read True counts as stopped, not as finished.
        """
        stop = process_stop_request()
        requested = stop.requested
        stop.seen_by_script = stop.seen_by_script or requested
        return requested

    def run(self, *queries: Any) -> None:
        """Block until all given queries have ended; without arguments, all active queries of the session.

        A stop request ends each query at a batch boundary. Raises the error of the first query that fails, even if others
        are still active. Raises Refused if there is no query.
        """
        awaited = queries or tuple(self.spark.streams.active)
        if not awaited and not process_stop_request().requested:
            raise Refused("Context.run found no active query: start a query first, and pass it to run")
        wait_for_queries(awaited)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "spark"}

    def __repr__(self) -> str:
        return f"Context(job={self.job!r}, attempt={self.attempt}, supervised={self.supervised})"


def context(parser: "argparse.ArgumentParser | None" = None) -> Context:
    """Return the context of this process.

    With an `argparse` parser, `Context.args` is the namespace that the parser returns. Otherwise it is an `Arguments` object.
    """
    words = sys.argv[1:]
    return Context(DriverEnvironment.from_variables(), Arguments(words) if parser is None else parser.parse_args(words))


def script_name() -> str:
    """Return the script's file name without its extension, or 'script' at a prompt and in a notebook."""
    name = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    return name if name.strip("-") and name != "-c" else "script"
