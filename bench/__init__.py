"""The figures of Holdfast, measured here and now: `make bench`, or `python -m bench NAME…`.

Claims are ratios within one run. Absolute times are this machine's.
"""

import os

os.environ.setdefault("HOLDFAST_ARCHIVES", "off")  # unless a benchmark is about them, nobody makes any while others measure
