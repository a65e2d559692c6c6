"""Prometheus: the agent's status as metrics. A scrape reads status.json, and nothing else."""
