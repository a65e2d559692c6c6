"""Slurm accounting: what `sacct` prints, as text or JSON, into `jobs`."""
