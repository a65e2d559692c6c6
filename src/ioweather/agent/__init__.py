"""The agent: runs live sources on time, collects their rows in a spool, and publishes its status every second."""
