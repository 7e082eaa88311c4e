"""Real processes on loopback, a real fault, and what they logged of it: the recordings that `holdfast explain` is measured by.

python -m tests.explain.record NAME OUT_DIR                     play one situation and keep its logs in OUT_DIR/NAME
python -m tests.explain.record.keeping OUT_DIR NAME=FILE …      keep logs that a test has left, as they are or a range of them
"""
