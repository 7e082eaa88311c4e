"""Text that cannot harm a terminal."""


def plain(text: str) -> str:
    """On one line, and without anything that a terminal would act upon: names and reasons come from programs of all kinds."""
    words = " ".join(text.split())
    if words.isprintable():
        return words
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in words)
