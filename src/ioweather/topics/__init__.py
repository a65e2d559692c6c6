"""Runs a question or an exhibit by name on a lake; results of exhibits are cached."""
