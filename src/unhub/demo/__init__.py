"""The demo: search emoji by description, on real texts and pictures that come with the package."""
