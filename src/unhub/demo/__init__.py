"""The demos: search the functions on this machine by what they do, or emoji by description, raw and corrected."""
