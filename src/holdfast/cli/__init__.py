"""Entry points: the `holdfast` command, which parses options and prints results of `holdfast.client`, and the agent process."""
