"""Text that a user's program wrote, made safe to show."""


def single_line(value: object, characters_max: int) -> str:
    """Return `value` as one printable line of at most `characters_max` characters, or "" if it is not a string."""
    if not isinstance(value, str):
        return ""
    printable = "".join(character if character.isprintable() else " " for character in value[:characters_max])
    return " ".join(printable.split())


def is_printable_text(value: object, characters_max: int) -> bool:
    return isinstance(value, str) and len(value) <= characters_max and value.isprintable()
