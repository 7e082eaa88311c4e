"""Renderings of an answer: JSON, HTML page, Perfetto trace and Parquet table. Pure.

Owns: the keys of the JSON answer. Never does: analyze events.
"""
