"""Data: vectors and their ids, similarities, banks, relevance, runs, draws."""
