"""`context()`: all that a script needs to know about the job that it is."""

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from holdfast.driver.active_queries import wait_for
from holdfast.driver.graceful_stop import of_this_process
from holdfast.driver.stderr_log import say
from holdfast.driver_protocol.environment import Environment
from holdfast.errors import Refused
from holdfast.job.arguments import Arguments

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import SparkSession

CHECKPOINT_CONF = "spark.sql.streaming.checkpointLocation"


class Context:
    """The job of this process. A function that Spark sends to its workers may use it, except for `spark` and `run`."""

    def __init__(self, environment: Environment, args: Any) -> None:
        self.args = args
        """Arguments, or whatever the script's own parser made of them."""
        self.supervised = environment.supervised
        self.job = environment.job or script_name()
        """The job's id; unsupervised, the script's name."""
        self.name = environment.name or self.job
        self.attempt = environment.attempt
        """Grows with every attempt, so that a sink can refuse what an earlier one sends late. 0 if nobody supervises."""
        self._environment = environment
        self._script = script_name()

    @functools.cached_property
    def spark(self) -> "SparkSession":
        from pyspark.sql import SparkSession

        return SparkSession.builder.appName(self.name).getOrCreate()

    @functools.cached_property
    def checkpoint(self) -> str:
        """Where this job's checkpoint is, the same for every attempt."""
        if self._environment.checkpoint:
            return self._environment.checkpoint
        named = getattr(self.args, "checkpoint", None)
        if isinstance(named, str) and named:
            return named
        root = self.spark.conf.get(CHECKPOINT_CONF, None)
        if root:
            return f"{root.rstrip('/')}/{self._script}"
        default = os.path.join(os.getcwd(), "checkpoints", self._script)
        say(f"no checkpoint was named, so this is {default}; --checkpoint or {CHECKPOINT_CONF} chooses another")
        return default

    @property
    def stopping(self) -> bool:
        """Whether the job is asked to stop. For loops that are no streaming queries; those are stopped without their help."""
        stop = of_this_process()
        asked = stop.asked
        stop.seen = stop.seen or asked
        return asked

    def run(self, *queries: Any) -> None:
        """Until all of these queries have ended, by themselves or at a batch boundary because the job is to stop.

        Without arguments, all that are active. Raises what a query failed of, as soon as the first one does.
        """
        waited = queries or tuple(self.spark.streams.active)
        if not waited and not of_this_process().asked:
            raise Refused("there is no query to run: start one first")
        wait_for(waited)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "spark"}

    def __repr__(self) -> str:
        return f"Context(job={self.job!r}, attempt={self.attempt}, supervised={self.supervised})"


def context(parser: "argparse.ArgumentParser | None" = None) -> Context:
    """The context of this process. With a parser, that one reads the arguments."""
    words = sys.argv[1:]
    return Context(Environment.read(), Arguments(words) if parser is None else parser.parse_args(words))


def script_name() -> str:
    """The script's file name without its ending; of a prompt or a notebook, 'script'."""
    name = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    return name if name.strip("-") and name != "-c" else "script"
