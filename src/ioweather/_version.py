"""The one place that names the version."""

__version__ = "0.3.0.dev0"
