"""Entry point of the `holdfast` command. It adjusts the garbage collector before the first large import."""

import atexit
import gc

GC_THRESHOLD = 50_000
"""New objects between two garbage collections. Python's default of 700 collects dozens of times while modules are imported."""


def main() -> None:
    """Run a command and exit with its code, see `command_line.run_command`."""
    gc.set_threshold(GC_THRESHOLD)
    atexit.register(gc.freeze)  # otherwise Python visits every object once more at exit
    from holdfast.cli.command_line import run_command

    run_command()


if __name__ == "__main__":
    main()
