"""The agent: runs live sources on time, keeps their rows in a spool, says at every moment how things stand."""
