"""Sets of queries: several descriptions of one target, by how many there are and how they are combined."""
