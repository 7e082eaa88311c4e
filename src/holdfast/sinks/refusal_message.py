"""Error messages for refused batches."""

from holdfast.errors import HoldfastError, OutputRefused, Superseded
from holdfast.sinks import batch_ledger
from holdfast.sinks.batch_ledger import GENERATION_BITS, UNOWNED, BatchIdentity, Owner, Refusal


def refusal_error(refusal: Refusal, batch: BatchIdentity, output: str) -> HoldfastError:
    """Return the error to raise, with the available choices."""
    match refusal:
        case batch_ledger.SupersededBy(by):
            return superseded_error(output, attempt_label(batch.attempt), _successor_label(batch.attempt, by))
        case batch_ledger.OwnedByOther(None):
            return OutputRefused(
                f"{output} already contains data without a recorded owner: choose another output, or continue this one with "
                f"adopt='{UNOWNED}'"
            )
        case batch_ledger.OwnedByOther(owner):
            return OutputRefused(
                f"{output} belongs to {_owner_label(owner)}: choose another output, or continue this one with adopt='{owner}'"
            )
        case batch_ledger.BatchGap(0):
            return OutputRefused(
                f"{output} is new, but this is batch {batch.id}, so earlier batches were written elsewhere: start here with "
                f"adopt='{UNOWNED}', or restart the query with a new checkpoint"
            )
        case batch_ledger.BatchGap(next_id):
            return OutputRefused(
                f"{output} expects batch {next_id}, but this is batch {batch.id}: restore the missing batches, or choose "
                f"another output with adopt='{UNOWNED}'"
            )
        case batch_ledger.DifferentInput():
            return OutputRefused(
                f"{output} already contains batch {batch.id}, made from different input: the checkpoint was changed, or the "
                f"output was written with another checkpoint. Choose another output"
            )
        case batch_ledger.BatchForgotten():
            return OutputRefused(
                f"{output} is past batch {batch.id} and no longer has its record, so the checkpoint is outdated: choose "
                f"another output, or restore a newer checkpoint"
            )


def superseded_error(output: str, attempt: str, successor: str) -> Superseded:
    return Superseded(f"{successor} has taken over {output}, so {attempt} no longer writes to it")


def attempt_label(attempt: int) -> str:
    return f"attempt {attempt & ((1 << GENERATION_BITS) - 1)}"


def _successor_label(attempt: int, by: int) -> str:
    same = attempt >> GENERATION_BITS == by >> GENERATION_BITS
    return attempt_label(by) if same else "a job that continues this job's checkpoint"


def _owner_label(owner: Owner | None) -> str:
    assert owner is not None
    return (
        f"the query {owner.query} of the job {owner.job}"
        if owner.job
        else f"the query {owner.query}, which ran without Holdfast"
    )
