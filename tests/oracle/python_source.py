"""Python data source over the input folder. Python workers import this module."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from tests.oracle.scene import SCHEMA


class StepsSource(DataSource):
    """Rows of JSON files. The offset is the number of files."""

    @classmethod
    def name(cls) -> str:
        return "steps"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return StepsReader(Path(self.options["folder"]))


class StepsReader(DataSourceStreamReader):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def initialOffset(self) -> dict[str, int]:
        return {"step": 0}

    def latestOffset(self, *_: Any) -> dict[str, int]:
        return {"step": len(self._files())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(str(file)) for file in self._files()[start["step"] : end["step"]]]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, str, datetime]]:
        for line in Path(partition.value).read_text().splitlines():
            row = json.loads(line)
            yield row["n"], row["key"], datetime.fromisoformat(row["at"])

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))
