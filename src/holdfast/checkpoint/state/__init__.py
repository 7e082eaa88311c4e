"""State of stateful operators in a checkpoint: its stores, the files that the next batch loads, and their damage. Pure."""
