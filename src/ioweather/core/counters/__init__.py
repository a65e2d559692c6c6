"""Parsers of kernel and file-system counters, which readers and the agent share. Standard library only."""
