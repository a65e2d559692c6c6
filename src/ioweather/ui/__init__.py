"""The surfaces: commands, dashboard, report, charts and the Python functions."""
