"""Lanes: the fault kinds that a run may choose, and its cluster. To add a kind to a lane, add its name to the list."""

from dataclasses import dataclass

from tests.chaos.catalogue import ALL_KINDS, NAMESPACE_KINDS, SINGLE_KINDS, SPARK_KINDS
from tests.chaos.timing import CALM_TIMING, SHORT_TIMING, USUAL_TIMING, ChaosTiming

AGENT_RESTARTS: tuple[str, ...] = ("kill:zk-all+restart:agent", "stop:zk-all+restart:agent")
"""Kinds in which an agent restarts during an outage. Its drivers live on earlier promises, for at most a session timeout, until
the new agent has exchanged promises. On a busy machine an agent needs seconds to start, so these kinds need a long timeout."""

SHORT_LANE = (
    *SINGLE_KINDS,
    "kill:leader",
    "kill:node",
    "stop:node",
    "kill:runner+kill:watchdog",
    "stop:runner+stop:watchdog",
    "kill:zk-one",
    "stop:zk-one",
    "kill:zk-all",
    "stop:zk-all",
)
"""Kinds of the run in `make test`."""

LONG_LANE = tuple(kind for kind in ALL_KINDS if kind not in AGENT_RESTARTS)
"""Kinds of `make chaos`."""

SPARK_LANE = (*SPARK_KINDS, "kill:driver", "kill:runner", "kill:agent", "kill:zk-all")
"""Kinds of a run with one real Spark driver."""


@dataclass(frozen=True, slots=True)
class Lane:
    kinds: tuple[str, ...]
    timing: ChaosTiming = SHORT_TIMING
    steady_jobs: int = 5
    spark: bool = False
    """True: one more steady job has a real Spark driver."""


LANES = {
    "short": Lane(SHORT_LANE, CALM_TIMING, steady_jobs=3),
    "long": Lane(LONG_LANE),
    "spark": Lane(SPARK_LANE, CALM_TIMING, steady_jobs=2, spark=True),
    "network": Lane(NAMESPACE_KINDS, CALM_TIMING),
    "outage": Lane((*AGENT_RESTARTS, "kill:zk-all", "stop:zk-all"), USUAL_TIMING),
}
