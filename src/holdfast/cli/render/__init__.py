"""Terminal output: tables, times, job details, diagnoses and JSON.

Owns: the layout of all output. Never does: read a cluster or a file.
"""
