"""The figures of Holdfast, measured here and now: `make bench`, or `python -m bench NAME…`.

Claims are ratios within one run. Absolute times are this machine's.
"""
