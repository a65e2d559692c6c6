"""Darshan logs: a reader of every 3.x and 2.x version in NumPy, and a writer of 3.41."""
