"""What a user's script imports, and what runs around that script inside the driver.

The package stands alone: of Holdfast it imports `errors` and nothing else, and PySpark only once the script does. What a script
imports works unsupervised too, under `spark-submit` or plain `python`. Nothing here decides whether an attempt goes on: it
reports, and it stops queries at a batch boundary when it is asked to.
"""

from holdfast.job.context import Context, context

__all__ = ["Context", "context"]
