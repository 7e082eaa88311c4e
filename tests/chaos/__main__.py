"""Command line: `python -m tests.chaos --seed N --seconds S --out DIR` and `python -m tests.chaos check DIR`"""

import argparse
import secrets
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from tests.chaos.catalogue import needs_namespaces
from tests.chaos.checkers import Violation, check_history
from tests.chaos.history import HISTORY_NAME, load_history
from tests.chaos.lanes import LANES
from tests.chaos.network import can_partition, enter_private_namespaces
from tests.chaos.report import write_report
from tests.chaos.run import ChaosRun, RunSettings

VIOLATIONS_SHOWN_MAX = 40
RUNS = Path(__file__).parents[2] / ".build" / "chaos"


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["check"]:
        return check(_parse_check(arguments[1:]))
    options = _parse(arguments)
    seed = options.seed if options.seed is not None else secrets.randbelow(1_000_000)
    seconds = options.hours * 3600 if options.hours is not None else options.seconds
    out = options.out or RUNS / f"{time.strftime('%Y%m%d-%H%M%S')}-seed-{seed}"
    lane = LANES[options.lane]
    if options.kinds:
        lane = replace(lane, kinds=tuple(options.kinds.split(",")))
    if needs_namespaces(lane.kinds) and not options.private_namespaces and can_partition():
        choices = ["--seed", str(seed), "--out", str(out), "--private-namespaces"]
        enter_private_namespaces([sys.executable, "-m", "tests.chaos", *arguments, *choices])
    say(f"seed {seed}, {len(lane.kinds)} kinds of faults, {seconds:g} s, history in {out}")
    settings = RunSettings(
        seed=seed,
        seconds=seconds,
        lane=lane,
        out=out,
        faults_max=options.faults,
        duration_s=options.duration,
        has_private_namespaces=options.private_namespaces,
        say=say,
    )
    signal.signal(signal.SIGTERM, _end)
    ChaosRun(settings).run()
    failed = check(out)
    if failed:
        say(f"seed {seed}; history in {out}; check it again with: python -m tests.chaos check {out}")
    return failed


def check(directory: Path) -> int:
    """Check the history of a run and write its report. Return 1 if there are violations."""
    history = load_history(directory)
    violations = check_history(history)
    write_report(directory / "report.html", history, violations)
    for violation in violations[:VIOLATIONS_SHOWN_MAX]:
        say(describe(violation))
    faults, drivers = len(history.faults), sum(process.is_driver for process in history.processes)
    say(
        f"{len(violations)} violations; {faults} faults, {drivers} drivers, {len(history.operations)} operations; "
        f"longest gap of the witness {history.longest_gap_s:.2f} s; report in {directory / 'report.html'}"
    )
    return 1 if violations else 0


def describe(violation: Violation) -> str:
    return f"VIOLATION [{violation.rule}] {violation.job} after fault {violation.fault}: {violation.text}"


def _end(*_: object) -> None:
    """End like after Ctrl-C: the cluster is stopped before this process exits."""
    raise SystemExit(143)


def say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def _parse_check(arguments: list[str]) -> Path:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos check", description="Check the history of a run again.")
    parser.add_argument("directory", type=Path, help="directory that a run has printed")
    directory: Path = parser.parse_args(arguments).directory
    if not (directory / HISTORY_NAME).is_file():
        parser.error(f"there is no {HISTORY_NAME} in {directory}")
    return directory


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="seed of all choices (default: random)")
    parser.add_argument("--seconds", type=float, default=600.0, help="time for faults (default: %(default)s)")
    parser.add_argument("--hours", type=float, help="time for faults in hours, instead of --seconds")
    parser.add_argument("--faults", type=int, help="maximum number of faults")
    parser.add_argument("--duration", type=float, metavar="SECONDS", help="length of each pause or cut (default: random)")
    parser.add_argument("--lane", choices=sorted(LANES), default="long", help="list of fault kinds (default: %(default)s)")
    parser.add_argument("--kinds", help="fault kinds, separated by commas, instead of a lane")
    parser.add_argument("--out", type=Path, help="directory of the history (default: a new directory in .build/chaos)")
    # Set by this program itself, after it has entered a network and a mount namespace of its own.
    parser.add_argument("--private-namespaces", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
