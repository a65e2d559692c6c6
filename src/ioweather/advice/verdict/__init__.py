"""Was it the job or the system, and how many seconds of each."""
