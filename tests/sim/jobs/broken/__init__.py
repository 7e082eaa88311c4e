"""Broken components for the variants of `tests.sim.jobs.variants`. Each one breaks a single rule."""
