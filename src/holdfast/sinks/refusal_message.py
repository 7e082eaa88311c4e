"""What a person reads when a batch is not written."""

from holdfast.errors import HoldfastError, OutputRefused, Superseded
from holdfast.sinks import batch_ledger
from holdfast.sinks.batch_ledger import GENERATION_BITS, NOBODY, Batch, Owner, Refusal


def refused(refusal: Refusal, batch: Batch, output: str) -> HoldfastError:
    """The error to raise, with the choices that there are."""
    match refusal:
        case batch_ledger.Superseded(by):
            return superseded(output, named_attempt(batch.attempt), _successor(batch.attempt, by))
        case batch_ledger.Foreign(None):
            return OutputRefused(
                f"{output} exists already, and nothing there says whose it is: choose another place, or continue it with "
                f"adopt='{NOBODY}'"
            )
        case batch_ledger.Foreign(owner):
            return OutputRefused(
                f"{output} belongs to {_named(owner)}, which is not this one: choose another place, or continue it with "
                f"adopt='{owner}'"
            )
        case batch_ledger.Gap(0):
            return OutputRefused(
                f"{output} is new, but this is batch {batch.id}: the batches before it went elsewhere. Begin with this one by "
                f"adopt='{NOBODY}', or start the query with a new checkpoint"
            )
        case batch_ledger.Gap(next_id):
            return OutputRefused(
                f"{output} waits for batch {next_id}, but this is batch {batch.id}: put back what is missing there, or choose "
                f"another place and adopt='{NOBODY}'"
            )
        case batch_ledger.Different():
            return OutputRefused(
                f"{output} has a batch {batch.id} already, made of other input: its checkpoint was changed, or is not the one "
                f"that it was written with. Choose another place"
            )
        case batch_ledger.Forgotten():
            return OutputRefused(
                f"{output} has come further than batch {batch.id}, and does not know any more what that was: its checkpoint is "
                f"an old one. Choose another place"
            )


def superseded(output: str, who: str, by: str) -> Superseded:
    return Superseded(f"{by} has taken over {output}, so {who} writes nothing more there")


def named_attempt(attempt: int) -> str:
    return f"attempt {attempt & ((1 << GENERATION_BITS) - 1)}"


def _successor(attempt: int, by: int) -> str:
    same = attempt >> GENERATION_BITS == by >> GENERATION_BITS
    return named_attempt(by) if same else "a job that goes on from this one"


def _named(owner: Owner | None) -> str:
    assert owner is not None
    return f"the query {owner.query} of the job {owner.job}" if owner.job else f"the query {owner.query}, which no job owns"
