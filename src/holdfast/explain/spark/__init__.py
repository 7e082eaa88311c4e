"""Spark for `holdfast explain`: the session of one command, the scan as a Spark job, and the code that workers receive.

Never does: interpret a log line.
"""
