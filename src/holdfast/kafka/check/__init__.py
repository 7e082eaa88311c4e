"""Pure part of the offset check: findings, park policy, operator choices and rewritten checkpoint offsets. No I/O, no clock."""
