"""Whether a run's I/O time follows the system's activity (mad17)."""
