"""Simulation of leadership: schedules of real agents, with faults, oracles and broken variants."""
