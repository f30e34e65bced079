"""Studies: one call, one table, one picture."""
