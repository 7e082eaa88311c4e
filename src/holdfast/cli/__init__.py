"""The entry points: the `holdfast` command and the agent's process. Composes; decides nothing."""
