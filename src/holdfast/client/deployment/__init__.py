"""Bring programs into a cluster: submit, upgrade, restore and apply."""
