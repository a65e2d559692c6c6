"""Exhibits of Carns et al. 2011. The comparison of two runs is a study of job_io, which shows it for any two jobs."""

from ioweather.job_io.compare import STUDY as TUNING

__all__ = ["TUNING"]
