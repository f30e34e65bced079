"""Banks: whether a bank is good, and parts of one to compare with."""
