"""Remove control characters from text before it is printed."""


def sanitize(text: str) -> str:
    """Return text on one line, with control characters escaped: names and reasons can contain arbitrary bytes."""
    words = " ".join(text.split())
    if words.isprintable():
        return words
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in words)
