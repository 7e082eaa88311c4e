"""The nouns of Holdfast and how they are written down. Pure: no clock, no randomness, no I/O, no logging."""
