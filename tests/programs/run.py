"""Run of programs on one cluster, one after the other or several at once."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from tests.harness.cluster.command import RunningCluster, start_cluster
from tests.harness.cluster.jobs import ClusterJobs
from tests.harness.cluster.process_observer import kill_leftovers
from tests.harness.kafka.brokers import Brokers, kraft_brokers
from tests.harness.kafka.jars import connector_jars
from tests.programs.batch_trial import BatchTrial
from tests.programs.catalogue import KAFKA, PROGRAMS, BatchProgram, Program, SocketProgram, StreamingProgram
from tests.programs.inputs import FileInput, KafkaInput, SocketInput
from tests.programs.report import Trial
from tests.programs.socket_trial import SocketTrial
from tests.programs.steps import Say
from tests.programs.streaming_trial import StreamingTrial


class ProgramCluster:
    """Cluster of two nodes, and a Kafka broker that starts when the first program needs it."""

    def __init__(self, directory: Path, up: RunningCluster, resources: contextlib.ExitStack, say: Say) -> None:
        self._directory = directory
        self._up = up
        self._say = say
        self._brokers = cache(lambda: _start_broker(directory / "kafka", resources))

    def run_all(self, programs: Sequence[Program], *, parallel: int) -> list[Trial]:
        if any(isinstance(program, StreamingProgram) and program.source == KAFKA for program in programs):
            self._brokers()  # in this thread: the broker dies with the thread that starts it
        with ThreadPoolExecutor(parallel) as executor:
            return list(executor.map(self.run, programs))

    def run(self, program: Program) -> Trial:
        start = time.monotonic()
        with ClusterJobs(self._directory, self._up.directory / "storage", "--dir", str(self._up.directory)) as jobs:
            cells = self._run_steps(program, jobs)
        return Trial(program.name, program.like, cells, time.monotonic() - start)

    def _run_steps(self, program: Program, jobs: ClusterJobs) -> dict[str, str]:
        match program:
            case StreamingProgram():
                return self._run_stream(program, jobs)
            case SocketProgram():
                with SocketInput(program.generate) as input:
                    return SocketTrial(program, jobs, input, self._say_for(program)).run()
            case BatchProgram():
                return BatchTrial(program, jobs, self._say_for(program)).run()

    def _run_stream(self, program: StreamingProgram, jobs: ClusterJobs) -> dict[str, str]:
        say = self._say_for(program)
        if program.source == KAFKA:
            conf = {"spark.jars": ",".join(map(str, connector_jars()))}
            return StreamingTrial(program, jobs, KafkaInput(self._brokers(), program.generate), say, conf).run()
        input = FileInput(self._directory / f"{program.name}-input", program.generate)
        return StreamingTrial(program, jobs, input, say, {}).run()

    def _say_for(self, program: Program) -> Say:
        return lambda text: self._say(f"{program.name}: {text}")


@contextlib.contextmanager
def start_program_cluster(directory: Path, say: Say) -> Iterator[ProgramCluster]:
    try:
        with (
            contextlib.ExitStack() as resources,
            start_cluster(directory / "c", "--nodes", "2", "--slots", "4") as up,
        ):
            yield ProgramCluster(directory, up, resources, say)
    finally:
        kill_leftovers(directory)


def select_programs(names: Sequence[str]) -> list[Program]:
    """Return the programs with these names, or all programs. Raises KeyError for an unknown name."""
    known = {program.name: program for program in PROGRAMS}
    return [known[name] for name in names] if names else list(PROGRAMS)


def _start_broker(directory: Path, resources: contextlib.ExitStack) -> Brokers:
    return resources.enter_context(kraft_brokers(directory, size=1))
