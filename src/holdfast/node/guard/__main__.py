"""Entry point of the guard process."""

import sys
from pathlib import Path

from holdfast.node.guard.guard_process import Guard

if __name__ == "__main__":
    sys.exit(Guard(Path(sys.argv[1]), sys.argv[2:]).run())
