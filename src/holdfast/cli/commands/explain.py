"""`holdfast explain`: diagnose incidents from logs."""

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

from holdfast.cli.options import connect_cluster, target_options
from holdfast.cli.output_files import EVENTS_BEGINS, JSON_BEGINS, PAGE_BEGINS, TRACE_BEGINS, check_free, write
from holdfast.cli.render.sanitize import sanitize
from holdfast.cli.render.table import is_terminal
from holdfast.cli.render.terminal import console
from holdfast.client import Cluster
from holdfast.errors import Refused, Unavailable

if TYPE_CHECKING:
    from holdfast.explain.inputs import InputFile
    from holdfast.explain.report.answer import Answer
    from holdfast.explain.spark.scan_job import ScanProgress

CLUSTER_HINT = "--cluster is followed by a cluster's name; use --from-cluster to read the logs of a cluster"
_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


class ExplainCommand(click.Command):
    """Command that explains `--cluster` without a name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.BadOptionUsage as error:
            if error.option_name == "--cluster":
                raise click.UsageError(CLUSTER_HINT, ctx) from error
            raise


@click.command(cls=ExplainCommand)
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option(
    "--from-cluster", is_flag=True, help="Read the events and logs of a Holdfast cluster. --dir and --connect imply it."
)
@target_options
@click.option(
    "--json", "json_file", metavar="FILE", help="Write the answer as JSON to FILE, or to standard output if FILE is -."
)
@click.option("--html", "page_file", metavar="FILE", help="Write a self-contained HTML page with a timeline to FILE.")
@click.option("--events", "events_file", metavar="FILE", help="Write all events to FILE as Parquet.")
@click.option("--perfetto", "trace_file", metavar="FILE", help="Write a trace for Perfetto to FILE.")
@click.option(
    "--library",
    multiple=True,
    metavar="FILE",
    help="TOML file with additional formats, events and rules; they take precedence over the built-in ones.",
)
@click.option("--master", help="Spark master that reads the logs (default: all cores of this machine).")
@click.option("--conf", "conf", multiple=True, metavar="K=V", help="Spark setting.")
def explain(
    paths: tuple[str, ...],
    from_cluster: bool,
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
    """Diagnose incidents from logs of ZooKeeper, Kafka, Flink, Spark and Holdfast.

    PATH is a file, a directory, a glob pattern, an address (s3://...), or - for standard input. Files may be compressed. A text
    that quotes log lines is read as well. Nothing is sent anywhere, and the same logs always give the same answer.

    With --from-cluster, the events of a cluster's jobs and the output of their drivers are copied from the cluster and read
    together with the files.
    """
    reads_cluster = from_cluster or directory is not None or connect is not None
    if cluster_name is not None and cluster_name.startswith("-"):
        raise click.UsageError(CLUSTER_HINT)
    if cluster_name is not None and not reads_cluster:
        raise click.UsageError(f"--cluster {cluster_name} only names a cluster: add --from-cluster to read its logs")
    if not paths and not reads_cluster:
        raise click.UsageError("nothing to explain: name files, directories or -, or use --from-cluster")
    cluster = connect_cluster(directory, connect, cluster_name) if reads_cluster else None
    check_free(json_file, "--json", JSON_BEGINS)
    check_free(page_file, "--html", PAGE_BEGINS)
    check_free(events_file, "--events", EVENTS_BEGINS)
    check_free(trace_file, "--perfetto", TRACE_BEGINS)
    settings = AnalysisSettings(master or f"local[{len(os.sched_getaffinity(0))}]", _parse_conf(conf), library)
    answer = _answer(paths, cluster, settings)
    if events_file is not None:
        _write_events(answer, events_file)
    if trace_file is not None:
        from holdfast.explain.report.perfetto import perfetto_trace

        write(trace_file, json.dumps(perfetto_trace(answer)))
    if page_file is not None:
        from holdfast.explain.report.html import render_page

        write(page_file, render_page(answer))
    if json_file is not None:
        text = json.dumps(answer.as_json(), indent=2, ensure_ascii=False)
        if json_file == "-":
            click.echo(text)
            return
        write(json_file, text)
    from holdfast.cli.render.diagnosis import print_answer

    print_answer(answer, console())


def _parse_conf(conf: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for pair in conf:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--conf {pair!r} is not of the form K=V")
        settings[key] = value
    return settings


@dataclass(frozen=True, slots=True)
class AnalysisSettings:
    """Spark settings and library files for the analysis."""

    master: str
    conf: dict[str, str]
    library: tuple[str, ...]


def _answer(paths: tuple[str, ...], cluster: Cluster | None, settings: AnalysisSettings) -> "Answer":
    try:
        from holdfast.explain.analyze import analyze
        from holdfast.explain.inputs import find_inputs
        from holdfast.explain.library import load_library
        from holdfast.explain.spark.scan_job import scan_on_spark
        from holdfast.explain.spark.spark_session import spark_session
        from holdfast.explain.timeline.merge import merge_scans
    except ImportError as error:
        raise Refused(f"{error.name} is not installed here: pip install 'holdfast[spark,explain]'") from error
    known = load_library(settings.library)  # report errors in it before Spark starts
    named = find_inputs(paths)
    try:
        with _cluster_logs(cluster, alone=not paths) as (copies, notes):
            files = [*copies, *named]
            with (
                _scan_progress(sum(file.size for file in files)) as on_progress,
                spark_session(settings.master, settings.conf) as session,
            ):
                found = merge_scans(files, scan_on_spark(session, files, known.added, on_progress))
    finally:
        for file in named:
            if file.is_temporary:
                Path(file.path).unlink(missing_ok=True)
    return analyze(replace(found, problems=(*notes, *found.problems)), known)


@contextlib.contextmanager
def _cluster_logs(cluster: Cluster | None, *, alone: bool) -> "Iterator[tuple[list[InputFile], list[str]]]":
    """Copy the logs of a cluster; yield the copies and notes about missing logs. `alone`: True without other inputs."""
    if cluster is None:
        yield [], []
        return
    from holdfast.explain.inputs import input_from_copy

    with tempfile.TemporaryDirectory(prefix="holdfast-explain-") as directory:
        try:
            with _copy_status() as on_copy:
                copies = cluster.copy_logs(directory, on_copy=on_copy)
        except (Refused, Unavailable) as error:
            if alone:
                raise
            yield [], [f"the events of the cluster in ZooKeeper could not be read: {error}"]
            return
        if alone and not copies.files:
            raise Refused(" ".join(("nothing to explain: the cluster has no events and no logs.", *copies.notes)))
        yield [input_from_copy(copy.path, copy.name) for copy in copies.files], copies.notes


@contextlib.contextmanager
def _copy_status() -> Iterator[Callable[[str], None]]:
    """Show the name of the current log on a terminal; without a terminal show nothing."""
    if not is_terminal(sys.stderr):
        yield lambda name: None
        return
    with console(stderr=True).status("reading the cluster") as status:
        yield lambda name: status.update(f"copying: {sanitize(name)}")


@contextlib.contextmanager
def _scan_progress(size: int) -> "Iterator[Callable[[ScanProgress], None]]":
    """Show a progress bar on a terminal; without a terminal show nothing."""
    if not is_terminal(sys.stderr):
        yield lambda done: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting Spark", total=None)
        amount = next(f"{size / unit:,.1f} {name}" for unit, name in _UNITS if size >= unit / 10 or unit == 1e3)

        def update(progress: "ScanProgress") -> None:
            description = f"reading {amount}" if progress.started else "waiting for Spark's workers"
            bar.update(
                task, description=description, completed=progress.done, total=progress.total if progress.started else None
            )

        yield update


def _write_events(answer: "Answer", path: str) -> None:
    from holdfast.explain.report.parquet import events_table

    try:
        from pyarrow import parquet

        parquet.write_table(events_table(answer), path)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error}") from error
