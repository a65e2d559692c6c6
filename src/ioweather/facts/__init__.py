"""From logs and accounting to metrics of jobs: files, times, volumes, signatures, groups."""
