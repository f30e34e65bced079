"""Evaluation: which items answer which query, how well a ranking finds them, how hubby it is, and which to choose."""
