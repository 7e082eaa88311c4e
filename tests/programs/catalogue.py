"""Programs of the table, and the example of Spark's documentation that each of them is like."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.programs import batch_data, event_data, expected
from tests.programs.batch_data import BatchData
from tests.programs.event_data import Phase
from tests.programs.expected import Expected
from tests.programs.outputs import ChangedRows, FileSink, ProgramOutput, RowsAndTotals, WholeResult

SCRIPTS = Path(__file__).parent / "scripts"
FILES, KAFKA = "files", "Kafka"


@dataclass(frozen=True, slots=True)
class NamedProgram:
    name: str
    like: str
    """Example of Spark's documentation."""

    @property
    def script(self) -> Path:
        return SCRIPTS / f"{self.name}.py"


@dataclass(frozen=True, slots=True)
class StreamingProgram(NamedProgram):
    generate: Callable[[int], Phase]
    expected: Expected
    output: ProgramOutput
    source: str = FILES


@dataclass(frozen=True, slots=True)
class SocketProgram(NamedProgram):
    """Program that reads a socket, to which no program can return: each attempt begins with the lines sent to it."""

    generate: Callable[[int], Phase]
    expected: Expected
    output: ProgramOutput


@dataclass(frozen=True, slots=True)
class BatchProgram(NamedProgram):
    prepare: Callable[[Path], BatchData]
    """Function that writes the input into a folder and returns the arguments and the result."""


Program = StreamingProgram | SocketProgram | BatchProgram

_GUIDE = "programming guide"
PROGRAMS: tuple[Program, ...] = (
    StreamingProgram("word_count", "structured network word count", event_data.word_lines, expected.count_words, WholeResult()),
    StreamingProgram(
        "windowed_word_count",
        "structured network word count, windowed",
        event_data.timed_words,
        expected.count_words_in_windows,
        FileSink(),
    ),
    StreamingProgram(
        "session_windows", f"{_GUIDE}: session windows", event_data.user_events, expected.find_sessions, FileSink()
    ),
    StreamingProgram(
        "sessionization", "structured network sessionization", event_data.user_events, expected.find_sessions, FileSink()
    ),
    StreamingProgram(
        "complex_sessionization",
        "structured complex sessionization",
        event_data.user_actions,
        expected.find_complex_sessions,
        FileSink(),
    ),
    StreamingProgram(
        "kafka_word_count",
        "structured Kafka word count",
        event_data.word_lines,
        expected.count_words,
        ChangedRows("word"),
        KAFKA,
    ),
    StreamingProgram(
        "ad_clicks", f"{_GUIDE}: join of ad impressions and clicks", event_data.ads, expected.join_clicks, FileSink()
    ),
    StreamingProgram(
        "stateful_word_count",
        "stateful network word count",
        event_data.word_lines,
        expected.count_words,
        ChangedRows("word"),
    ),
    StreamingProgram("foreach_batch", f"{_GUIDE}: foreachBatch", event_data.numbers, expected.total_numbers, RowsAndTotals()),
    StreamingProgram(
        "drop_duplicates", f"{_GUIDE}: deduplication", event_data.repeated_events, expected.find_unique_events, FileSink()
    ),
    SocketProgram(
        "socket_word_count", "structured network word count", event_data.word_lines, expected.count_words, WholeResult()
    ),
    BatchProgram("pi", "pi", batch_data.throw_points),
    BatchProgram("batch_word_count", "word count", batch_data.write_texts),
    BatchProgram("k_means", "k-means", batch_data.write_clusters),
    BatchProgram("page_rank", "page rank", batch_data.write_links),
    BatchProgram("transitive_closure", "transitive closure", batch_data.write_edges),
)
