"""Encoders: texts, images and videos to vectors on disk, with the dual encoders of transformers."""
