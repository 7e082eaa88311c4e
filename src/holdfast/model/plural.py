"""Counts with their nouns, for messages."""


def format_count(count: int, noun: str, plural: str | None = None) -> str:
    """Return the count with its noun: `1 attempt`, `2,000 attempts`. `plural` is for nouns that do not just take an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
