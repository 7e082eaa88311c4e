"""Oracles of the job simulation: committed records, rules for transactions, and invariants of drivers and jobs."""
