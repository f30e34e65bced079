"""Emoji: search them by description, on texts and pictures that come with the package."""
