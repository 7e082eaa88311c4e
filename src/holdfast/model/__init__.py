"""Domain types of Holdfast and their encoding. Pure: no clock, no randomness, no I/O, no logging."""
