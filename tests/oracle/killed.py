"""Driver process that kills itself and its JVM with SIGKILL in its next batch.

`python -m tests.oracle.killed` reads program, settings, folders and moment as JSON from standard input.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.harness.waiting import wait_until
from tests.oracle.program import Program
from tests.oracle.programs import PROGRAMS
from tests.oracle.scene import QueryScene
from tests.oracle.session import ROOT, BatchWriter, run, spark_session

DRIVER_TIMEOUT_S = 300
MOMENTS = ("in sink", "after sink", "in state write")


class DriverSurvived(Exception):
    """The driver ended in another way than by SIGKILL."""


def run_killed_driver(program: Program, scene: QueryScene, moment: str) -> None:
    """Continue a query in another process, which kills itself at this moment."""
    order = {"program": program.name, "conf": dict(program.conf), "input": str(scene.input), "home": str(scene.home)}
    result = subprocess.run(
        [sys.executable, "-m", "tests.oracle.killed"],
        input=json.dumps({**order, "moment": moment}),
        capture_output=True,
        text=True,
        timeout=DRIVER_TIMEOUT_S,
        check=False,
        cwd=ROOT,
    )
    if result.returncode != -signal.SIGKILL:
        raise DriverSurvived(f"exit code {result.returncode}: {result.stderr[-500:]}")


class KillingWriter(BatchWriter):
    def __init__(self, out: Path, moment: str, kill: Callable[[], None]) -> None:
        super().__init__(out)
        self._moment = moment
        self._kill = kill

    def __call__(self, batch: DataFrame, number: int) -> None:
        if self._moment == "in sink":
            self._kill()
        super().__call__(batch, number)
        if self._moment == "after sink":
            self._kill()


def main() -> None:
    order = json.load(sys.stdin)
    program = replace(next(each for each in PROGRAMS if each.name == order["program"]), conf=order["conf"])
    scene = QueryScene(Path(order["input"]), Path(order["home"]))
    with spark_session(scene.home.parent / "warehouse") as spark:
        kill = _killer(spark)
        if order["moment"] == "in state write":
            threading.Thread(target=_kill_at_first_state_file, args=(scene, kill), daemon=True).start()
        run(spark, program, scene, KillingWriter(scene.out, order["moment"], kill))


def _killer(spark: SparkSession) -> Callable[[], None]:
    assert spark._jvm is not None
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())

    def kill() -> None:
        os.kill(jvm, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    return kill


def _kill_at_first_state_file(scene: QueryScene, kill: Callable[[], None]) -> None:
    """Kill as soon as one task has written its new version of the state. Other tasks have not."""
    version = scene.newest_batch() + 2
    state = scene.checkpoint / "state"
    wait_until(lambda: any(state.glob(f"*/*/**/{version}*.*")), DRIVER_TIMEOUT_S, "the first file of the state", every_s=0.001)
    kill()


if __name__ == "__main__":
    main()
