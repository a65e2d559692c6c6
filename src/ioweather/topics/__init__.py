"""Finds a question or an exhibit by name, fetches what it needs from the lake, runs it and caches the result."""
