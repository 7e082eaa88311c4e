"""Benchmarks of Holdfast: `make bench`, or `python -m bench NAME…`.

Performance claims are ratios measured in one run. Absolute times depend on the machine.
"""

import os

os.environ.setdefault("HOLDFAST_ARCHIVES", "off")  # building a class archive would disturb the other benchmarks
