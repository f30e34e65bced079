"""Stores: vectors in databases, behind one interface."""
