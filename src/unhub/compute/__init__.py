"""How work is done: workers, progress, passes over tiles, Sinkhorn, transport."""
