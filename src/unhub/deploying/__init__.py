"""Deploying: a correction in a vector engine, measured there, switched and rolled back; its versions in a folder."""
