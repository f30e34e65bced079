"""Search: a Searcher over an index, and the rankings that need whole rows."""
