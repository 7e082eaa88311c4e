"""`holdfast explain`: what happened, from logs."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from holdfast.cli.output_files import EVENTS_BEGINS, JSON_BEGINS, PAGE_BEGINS, TRACE_BEGINS, check_free, write
from holdfast.cli.render.diagnosis import show
from holdfast.cli.render.sanitize import plain
from holdfast.cli.render.terminal import console, is_terminal
from holdfast.client.target import Target, find
from holdfast.errors import Refused, Unavailable
from holdfast.model.identifiers import is_name

if TYPE_CHECKING:
    from holdfast.explain.inputs import Input
    from holdfast.explain.report.answer import Answer
    from holdfast.explain.spark.scan_job import Progress as Done

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--cluster", "of_cluster", is_flag=True, help="What a cluster has to tell of itself: its events and its logs.")
@click.option("--dir", "directory", type=click.Path(path_type=Path), help="That cluster: the directory of a local one.")
@click.option("--connect", help="That cluster: its ZooKeeper, HOST:PORT,HOST:PORT…[/PATH].")
@click.option("--cluster-name", help="The cluster's name, with --connect. Default: 'default'.")
@click.option("--json", "json_file", metavar="FILE", help="The answer for scripts; - for the terminal.")
@click.option(
    "--html", "page_file", metavar="FILE", help="A page with lanes of time, for a browser; one file that needs no other."
)
@click.option("--events", "events_file", metavar="FILE", help="Every event, as Parquet.")
@click.option("--perfetto", "trace_file", metavar="FILE", help="A trace, for Perfetto and other viewers.")
@click.option(
    "--library",
    multiple=True,
    metavar="FILE",
    help="Formats, events and rules of your own (TOML), before those that are known.",
)
@click.option("--master", help="The Spark that reads. Default: this machine, all of its cores.")
@click.option("--conf", "conf", multiple=True, metavar="K=V", help="A setting of that Spark.")
def explain(
    paths: tuple[str, ...],
    of_cluster: bool,
    directory: Path | None,
    connect: str | None,
    cluster_name: str | None,
    json_file: str | None,
    page_file: str | None,
    events_file: str | None,
    trace_file: str | None,
    library: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Read logs of ZooKeeper, Kafka, Flink, Spark and Holdfast, and say what happened.

    PATH is a file, a directory, a pattern, an address (s3://...), or - for standard input; compressed or not. A report that
    quotes log lines is read as well. Nothing is sent anywhere, and the same logs always get the same answer.

    With --cluster, what became of its jobs and what their drivers have printed is fetched from there, and read with the rest.
    """
    target = find(directory, connect, cluster_name) if of_cluster or directory is not None or connect else None
    if not paths and target is None:
        raise click.UsageError("what is to be explained? Name files, directories or -, or say --cluster")
    for path in paths:
        if target is not None and is_name(path) and not Path(path).exists():
            raise click.UsageError(f"there is no file {path}; the name of a cluster is given by --cluster-name")
    check_free(json_file, "--json", JSON_BEGINS)
    check_free(page_file, "--html", PAGE_BEGINS)
    check_free(events_file, "--events", EVENTS_BEGINS)
    check_free(trace_file, "--perfetto", TRACE_BEGINS)
    reader = Reader(master or f"local[{len(os.sched_getaffinity(0))}]", _settings(conf), library)
    answer = _answer(paths, target, reader)
    if events_file is not None:
        _write_events(answer, events_file)
    if trace_file is not None:
        from holdfast.explain.report.perfetto import trace

        write(trace_file, json.dumps(trace(answer)))
    if page_file is not None:
        from holdfast.explain.report.html import page

        write(page_file, page(answer))
    if json_file is not None:
        text = json.dumps(answer.json(), indent=2, ensure_ascii=False)
        if json_file == "-":
            click.echo(text)
            return
        write(json_file, text)
    show(answer, console())


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for pair in conf:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--conf {pair!r} is not of the form K=V")
        settings[key] = value
    return settings


@dataclass(frozen=True, slots=True)
class Reader:
    """How it is read."""

    master: str
    conf: dict[str, str]
    library: tuple[str, ...]


def _answer(paths: tuple[str, ...], target: Target | None, reader: Reader) -> "Answer":
    try:
        from holdfast.explain.analyze import answer
        from holdfast.explain.inputs import inputs
        from holdfast.explain.library import library
        from holdfast.explain.spark.scan_job import scanned
        from holdfast.explain.spark.session import spark
        from holdfast.explain.timeline.merge import gathered
    except ImportError as error:
        raise Refused(f"{error.name} is not installed here: pip install 'holdfast[spark,explain]'") from error
    known = library(reader.library)  # what is wrong with it is said before Spark starts
    named = inputs(paths)
    try:
        with _copied(target, alone=not paths) as (copies, notes):
            files = [*copies, *named]
            with _told(sum(file.size for file in files)) as told, spark(reader.master, reader.conf) as session:
                found = gathered(files, scanned(session, files, known.added, told))
    finally:
        for file in named:
            if file.spooled:
                Path(file.path).unlink(missing_ok=True)
    return answer(replace(found, troubles=(*notes, *found.troubles)), known)


@contextlib.contextmanager
def _copied(target: Target | None, *, alone: bool) -> "Iterator[tuple[list[Input], list[str]]]":
    """What the cluster has to tell, as files, and what could not be had of it. `alone`: there is nothing else to read."""
    if target is None:
        yield [], []
        return
    from holdfast.client.cluster_logs import copy_cluster
    from holdfast.client.log_copies import Copies
    from holdfast.explain.inputs import copied

    with tempfile.TemporaryDirectory(prefix="holdfast-explain-") as directory:
        with _saying() as say:
            copies = Copies(Path(directory), say)
            try:
                asyncio.run(copy_cluster(target, copies))
            except (Refused, Unavailable):
                if alone:
                    raise
        if alone and not copies.files:
            raise Refused(" ".join(("there is nothing to explain: the cluster has no events and no logs.", *copies.notes)))
        yield [copied(copy.path, copy.name) for copy in copies.files], copies.notes


@contextlib.contextmanager
def _saying() -> Iterator[Callable[[str], None]]:
    """One line on a terminal, which goes away."""
    if not is_terminal(sys.stderr):
        yield lambda name: None
        return
    with console(stderr=True).status("looking at the cluster") as status:
        yield lambda name: status.update(f"copying: {plain(name)}")


@contextlib.contextmanager
def _told(size: int) -> "Iterator[Callable[[Done], None]]":
    """A bar on a terminal, nothing else."""
    if not is_terminal(sys.stderr):
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)
        amount = next(f"{size / unit:,.1f} {name}" for unit, name in _UNITS if size >= unit / 10 or unit == 1e3)

        def told(done: "Done") -> None:
            what = f"reading {amount}" if done.begun else "waiting for Spark's workers"
            bar.update(task, description=what, completed=done.done, total=done.of if done.begun else None)

        yield told


def _write_events(answer: "Answer", path: str) -> None:
    from holdfast.explain.report.parquet import events_table

    try:
        from pyarrow import parquet

        parquet.write_table(events_table(answer), path)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error}") from error
