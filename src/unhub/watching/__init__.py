"""Watching: hubness over time from what was returned, alarms, and A/B tests."""
