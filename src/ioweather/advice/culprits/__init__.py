"""Who slowed a run: the jobs beside it, by the seconds that it would have taken less without each."""
