"""Reading and verifying checkpoints wherever they are, without Spark."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.checkpoint import Query, Sink, Standing
from holdfast.checkpoint.file_sink import FOLDER as SINK_LOG
from holdfast.model import codec
from holdfast.storage.checkpoint_examiner import FOLDER
from holdfast.storage.dispatch import SILENCE_S, Caller, caller
from holdfast.storage.location import parse, validate

Record = TypeVar("Record")


class Checkpoints:
    """What is below one place, spelled as `location.in_storage` gives it: the root of a job's checkpoint, or one query's."""

    def __init__(self, checkpoint: str, *, apart: bool = True, silence_s: float = SILENCE_S) -> None:
        validate(checkpoint)
        self._call = caller(parse(checkpoint), FOLDER, apart=apart, silence_s=silence_s)

    def queries(self) -> list[Query]:
        """Each query whose checkpoint is there, or one folder below, with what is wrong with it. Raises Unavailable."""
        return [record_of(Query, fields) for fields in self._call("examine")]

    def standing(self) -> Standing | None:
        """How far the query in this very place is; None if there is none. Raises Unavailable."""
        fields = self._call("standing")
        return record_of(Standing, fields) if fields is not None else None

    def rewrite(self, files: dict[str, str]) -> None:
        """Each whole or not at all, in their order. Only for whoever holds the claim: nobody else writes meanwhile."""
        self._call("rewrite", files=files)

    def set_aside(self, query: Query, batch: int, attempt: int) -> str:
        """Moves torn offsets to where nobody takes them for good; nothing is ever deleted. Gives its new name."""
        return str(self._call("set_aside", place=query.place, batch=batch, attempt=attempt))


def sink_at(path: str, *, apart: bool = True, silence_s: float = SILENCE_S) -> Sink:
    """The log of the file sink that writes there. Raises Unavailable, and Refused for what is no location."""
    validate(path)
    call: Caller = caller(parse(path).joined(SINK_LOG), FOLDER, apart=apart, silence_s=silence_s)
    return record_of(Sink, call("examine_sink"))


def record_of(kind: Callable[..., Record], fields: dict[str, Any]) -> Record:
    """Through the codec: an answer of another process is judged like any other bytes."""
    data = json.dumps({"schema": codec.SCHEMA, **fields}).encode()
    return codec.decode(kind, data, where="what was found")  # type: ignore[arg-type]
