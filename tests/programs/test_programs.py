"""Programs like Spark's examples survive kills, stops, savepoints and upgrades with exact results."""

from collections.abc import Callable, Iterator

import pytest

from tests.programs.catalogue import Program, SocketProgram
from tests.programs.report import result_table
from tests.programs.run import ProgramCluster, select_programs, start_program_cluster
from tests.programs.socket_trial import BEGINS_AGAIN
from tests.programs.steps import EXACT, SAVEPOINT, STEPS

SHORT_LANE = ["complex_sessionization", "kafka_word_count", "ad_clicks", "socket_word_count", "page_rank"]
"""Programs of the different kinds. `make programs` runs all of them."""

pytestmark = [pytest.mark.live, pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProgramCluster]:
    with start_program_cluster(tmp_path_factory.mktemp("programs"), lambda _: None) as cluster:
        yield cluster


@pytest.mark.parametrize("program", select_programs(SHORT_LANE), ids=lambda program: program.name)
def test_program_is_exact_after_every_step(cluster: ProgramCluster, program: Program, report: Callable[[str], None]) -> None:
    trial = cluster.run(program)
    for line in result_table([trial]).splitlines()[1:]:
        report(line)
    assert not trial.failed, trial.cells
    expected = BEGINS_AGAIN if isinstance(program, SocketProgram) else EXACT
    assert {step: trial.cells[step] for step in STEPS if step != SAVEPOINT} == {
        step: expected for step in STEPS if step != SAVEPOINT
    }
