"""Logs: bank folders that follow query logs, labels from clicks, and queries that are forgotten."""
