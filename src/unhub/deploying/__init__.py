"""Deploying: a correction in a vector engine, measured there before it goes live, switched and rolled back."""
