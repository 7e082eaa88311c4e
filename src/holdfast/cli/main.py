"""The `holdfast` command."""

import contextlib
import os
import sys

import click

from holdfast import __version__
from holdfast.cli.cluster import cluster
from holdfast.cli.local import down, up
from holdfast.cli.node import node
from holdfast.errors import HoldfastError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="holdfast")
def holdfast() -> None:
    """Keeps PySpark streaming jobs running when ZooKeeper, Kafka, a machine or one of the jobs does not."""


for command in (up, down, node, cluster):
    holdfast.add_command(command)


def main() -> None:
    """Exit codes: 0 done, 1 refused or failed with a sentence on stderr, 2 wrong usage."""
    try:
        holdfast.main(standalone_mode=False)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except HoldfastError as error:
        click.echo(f"holdfast: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        if os.environ.get("HOLDFAST_DEBUG"):
            raise
        _say_last_words(f"{type(error).__name__}: {error}; HOLDFAST_DEBUG=1 shows where")
        sys.exit(1)


def _say_last_words(sentence: str) -> None:
    with contextlib.suppress(OSError):
        click.echo(f"holdfast: {' '.join(sentence.split())}", err=True)


if __name__ == "__main__":
    main()
