"""Sets of queries: search for one target with several descriptions, and evaluate how to combine them."""
