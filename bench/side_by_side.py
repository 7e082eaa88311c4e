"""Run benchmarks of an earlier revision and of this one in turns: `python -m bench.side_by_side REVISION NAME[=NAME_BEFORE]…`.

Both use this Python environment, so the revision must need the same packages. `offset_check=kafka_guard` names a benchmark that
had another name in the revision.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
LABELS = ("before", "now")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.side_by_side", description="Compare benchmarks with a revision.")
    parser.add_argument("revision", help="earlier revision in git")
    parser.add_argument("names", nargs="+", metavar="NAME[=NAME_BEFORE]", help="benchmark, and its name in the revision")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each benchmark (default: %(default)s)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _end_like_interrupt)
    with _checkout(arguments.revision) as earlier:
        for name in arguments.names:
            now, _, before = name.partition("=")
            print(f"\n{now}", flush=True)
            for _ in range(arguments.rounds):
                outputs = (_run(earlier, before or now), _run(REPOSITORY, now))
                sys.stdout.writelines(f"{line}\n" for line in pair_lines(*outputs))
                sys.stdout.flush()
    return 0


def _end_like_interrupt(*_: object) -> None:
    raise SystemExit(143)


@contextlib.contextmanager
def _checkout(revision: str) -> Iterator[Path]:
    """Check out the revision into a temporary directory."""
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "before"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), revision], cwd=REPOSITORY, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=REPOSITORY, check=False)


def _run(tree: Path, name: str) -> list[str]:
    """Run a benchmark of a source tree and return the lines that it prints, without the line about the machine."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    command = [sys.executable, "-m", "bench", name]
    with subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()  # it stops its clusters, and `with` waits for it
            raise
    lines = [line.strip() for line in output.splitlines()[1:]]
    failure = [f"failed with exit code {process.returncode}"] if process.returncode else []
    return [line for line in lines if line and line != name] + failure


def pair_lines(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Yield the lines of both runs with their labels: in pairs, or one run after the other if their numbers differ."""
    if len(before) == len(now):
        for pair in zip(before, now, strict=True):
            yield from (f"  {label:<8}{line}" for label, line in zip(LABELS, pair, strict=True))
    else:
        for label, lines in zip(LABELS, (before, now), strict=True):
            yield from (f"  {label:<8}{line}" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
