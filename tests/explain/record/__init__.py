"""Record the logs of real processes with a real fault. `holdfast explain` is measured by these recordings.

python -m tests.explain.record NAME OUT_DIR                     run a situation and store its logs in OUT_DIR/NAME
python -m tests.explain.record.log_store OUT_DIR NAME=FILE …      store logs of a test, or a time range of them
"""
