"""The service: a page to look at and an API to call; one space of items, searched raw and corrected."""
