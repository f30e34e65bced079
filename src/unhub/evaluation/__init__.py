"""Evaluation: how well a ranking finds the answers, how sure that is, and how evenly it returns the items."""
