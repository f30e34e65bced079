"""The parts of a report: what was found, what it comes to, and the page that shows it."""
