"""Tuning: which method, at which setting, with labels or without."""
