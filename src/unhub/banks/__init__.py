"""Banks: judge whether a bank is good, and draw parts of one."""
