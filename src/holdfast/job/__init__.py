"""Public API for scripts: `from holdfast.job import context`.

The API also works without Holdfast, under `spark-submit` or plain `python`. It imports PySpark only on the first use of
`Context.spark`, and never imports the control plane.
"""

from holdfast.job.context import Context, context

__all__ = ["Context", "context"]
