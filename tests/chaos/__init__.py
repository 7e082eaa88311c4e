"""Chaos suite: random faults against real clusters, recorded by an independent witness and checked offline.

Owns: the fault catalogue, the traffic, the witness, the recorded history, its checkers and the report.
Never does: judge a run while it is in progress. Every verdict comes from the files of the run, so it can be repeated.
"""
