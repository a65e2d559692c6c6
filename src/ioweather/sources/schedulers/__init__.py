"""Accounting of schedulers other than Slurm into `jobs`: PBS and Torque, LSF, Grid Engine. All of it is in epochs."""
