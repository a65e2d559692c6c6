"""The command line: a thin skin where each command body is one workflow call. Top-level imports are click only."""
