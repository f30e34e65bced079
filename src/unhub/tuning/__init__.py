"""Tuning: choose a method and its setting, with or without labels."""
